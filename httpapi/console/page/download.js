import { Failure, send } from "./api.js";
import { fill } from "./dom.js";
import { bytes } from "./format.js";
import { announce, saveBlob, showProgress } from "./ui.js";

// download saves a response in the browser's downloads and shows the progress
// in a banner. It returns {blob, name}, or undefined if the user cancels.
export async function download(banner, title, fallbackName, signal, method, path, body) {
	const progress = showProgress(banner, title, signal);
	try {
		const response = await send(method, path, { key: "client", body, signal: progress.signal });
		const name = fileName(response.headers.get("Content-Disposition") ?? "") ?? fallbackName;
		const blob = await collect(response, progress);
		saveBlob(blob, name);
		announce(`${name} is in your downloads.`);
		return { blob, name };
	} catch (error) {
		if (!progress.signal.aborted) throw error;
		announce("Canceled.");
	} finally {
		fill(banner);
	}
}

// collect reads a response body. Every 16 MB are moved to a Blob, which browsers
// keep on disk when it is large.
async function collect({ headers, body }, { bar, text }) {
	const total = headers.has("Content-Encoding") ? 0 : Number(headers.get("Content-Length"));
	const type = headers.get("Content-Type") ?? "";
	const reader = body.getReader();
	let blob = new Blob([], { type });
	let [parts, size] = [[], 0];
	for (;;) {
		const { done, value } = await reader.read().catch(() => {
			throw new Failure(502, `The download was aborted after ${bytes(blob.size + size)}. Nothing was saved`);
		});
		if (value) size += parts.push(value) && value.length;
		if (done || size > 16e6) {
			blob = new Blob([blob, ...parts], { type });
			[parts, size] = [[], 0];
		}
		if (done) return blob;
		const received = blob.size + size;
		if (total) [bar.max, bar.value] = [total, received];
		text.textContent = total ? `${bytes(received)} of ${bytes(total)}, ${Math.floor((100 * received) / total)} %` : `${bytes(received)}, total size unknown`;
	}
}

// fileName returns the name in a Content-Disposition, preferably filename*
// (RFC 6266, section 4.3).
function fileName(disposition) {
	const [, extended] = /;\s*filename\*\s*=\s*UTF-8''([^;\s]+)/i.exec(disposition) ?? [];
	const [, quoted] = /;\s*filename\s*=\s*"((?:[^"\\]|\\.)*)"/i.exec(disposition) ?? [];
	try {
		return decodeURIComponent(extended.trim());
	} catch {
		return quoted?.replaceAll(/\\(.)/g, "$1");
	}
}

// readSkipped returns the skipped items in the manifest.json of a zip, undefined
// without one or beyond 4 GiB (zip64). The zip may exceed memory, so only the
// directory and that entry are read (PKWARE APPNOTE, 4.3.7 to 4.3.16).
export async function readSkipped(zip) {
	const read = async (from, to) => new DataView(await zip.slice(from, to).arrayBuffer());
	const uint32 = (data, at) => data.getUint32(at, true);
	const uint16 = (data, at) => data.getUint16(at, true);

	const tail = await read(-22);
	if (tail.byteLength < 22 || uint32(tail, 0) !== 0x06054b50) return;
	const directory = await read(uint32(tail, 16), uint32(tail, 16) + uint32(tail, 12));
	for (let at = 0; at < directory.byteLength;) {
		const [name, extra, comment] = [28, 30, 32].map((offset) => uint16(directory, at + offset));
		if (new TextDecoder().decode(directory.buffer.slice(at + 46, at + 46 + name)) === "manifest.json") {
			const start = uint32(directory, at + 42);
			const local = await read(start, start + 30);
			const from = start + 30 + uint16(local, 26) + uint16(local, 28);
			return (await new Response(zip.slice(from, from + uint32(directory, at + 20))).json()).skipped;
		}
		at += 46 + name + extra + comment;
	}
}
