import { Failure, send } from "./api.js";
import { fill } from "./dom.js";
import { bytes } from "./format.js";
import { save, say, working } from "./ui.js";

// download brings an answer into the browser's downloads and shows in a strip
// how far it is. It returns {blob, name}, or nothing if it was cancelled.
export async function download(strip, what, fallback, signal, method, path, body) {
	const progress = working(strip, what, signal);
	try {
		const response = await send(method, path, { key: "client", body, signal: progress.signal });
		const name = fileName(response.headers.get("Content-Disposition") ?? "") ?? fallback;
		const blob = await collect(response, progress);
		save(blob, name);
		say(`${name} is in your downloads.`);
		return { blob, name };
	} catch (error) {
		if (!progress.signal.aborted) throw error;
		say("Cancelled.");
	} finally {
		fill(strip);
	}
}

// collect reads an answer to its end. What has come is made a Blob now and
// then, which browsers keep on disk when it is large.
async function collect({ headers, body }, { bar, text }) {
	const total = headers.has("Content-Encoding") ? 0 : Number(headers.get("Content-Length"));
	const type = headers.get("Content-Type") ?? "";
	const reader = body.getReader();
	let blob = new Blob([], { type });
	let [parts, waiting] = [[], 0];
	for (;;) {
		const { done, value } = await reader.read().catch(() => {
			throw new Failure(502, `The download broke off after ${bytes(blob.size + waiting)}. Nothing was saved`);
		});
		if (value) waiting += parts.push(value) && value.length;
		if (done || waiting > 16e6) {
			blob = new Blob([blob, ...parts], { type });
			[parts, waiting] = [[], 0];
		}
		if (done) return blob;
		const have = blob.size + waiting;
		if (total) [bar.max, bar.value] = [total, have];
		text.textContent = total ? `${bytes(have)} of ${bytes(total)}, ${Math.floor((100 * have) / total)} %` : `${bytes(have)} so far, of what is not known`;
	}
}

// fileName reads a Content-Disposition, in which filename* comes first.
function fileName(disposition) {
	const [, extended] = /;\s*filename\*\s*=\s*UTF-8''([^;\s]+)/i.exec(disposition) ?? [];
	const [, quoted] = /;\s*filename\s*=\s*"((?:[^"\\]|\\.)*)"/i.exec(disposition) ?? [];
	try {
		return decodeURIComponent(extended.trim());
	} catch {
		return quoted?.replaceAll(/\\(.)/g, "$1");
	}
}

// readSkipped returns what manifest.json says was left out of a zip, or
// undefined if there is none. It reads the directory and that entry alone: the
// zip may be larger than memory. The layout is in PKWARE's APPNOTE, 4.3.7 to
// 4.3.16; a zip beyond 4 GiB, which has its directory elsewhere, is left alone.
export async function readSkipped(zip) {
	const read = async (from, to) => new DataView(await zip.slice(from, to).arrayBuffer());
	const number = (data, at) => data.getUint32(at, true);
	const short = (data, at) => data.getUint16(at, true);

	const tail = await read(-22);
	if (tail.byteLength < 22 || number(tail, 0) !== 0x06054b50) return;
	const directory = await read(number(tail, 16), number(tail, 16) + number(tail, 12));
	for (let at = 0; at < directory.byteLength;) {
		const [name, extra, comment] = [28, 30, 32].map((offset) => short(directory, at + offset));
		if (new TextDecoder().decode(directory.buffer.slice(at + 46, at + 46 + name)) === "manifest.json") {
			const start = number(directory, at + 42);
			const local = await read(start, start + 30);
			const from = start + 30 + short(local, 26) + short(local, 28);
			return (await new Response(zip.slice(from, from + number(directory, at + 20))).json()).skipped;
		}
		at += 46 + name + extra + comment;
	}
}
