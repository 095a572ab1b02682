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
		const name = fileName(response) ?? fallbackName;
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

// fileName returns the name in the Content-Disposition, preferably filename*
// (RFC 6266, section 4.3).
export function fileName({ headers }) {
	const disposition = headers.get("Content-Disposition") ?? "";
	const [, extended] = /;\s*filename\*\s*=\s*UTF-8''([^;\s]+)/i.exec(disposition) ?? [];
	const [, quoted] = /;\s*filename\s*=\s*"((?:[^"\\]|\\.)*)"/i.exec(disposition) ?? [];
	try {
		return decodeURIComponent(extended.trim());
	} catch {
		return quoted?.replaceAll(/\\(.)/g, "$1");
	}
}
