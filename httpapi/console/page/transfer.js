import { CanvasbackError } from "../../client/client.js";
import { call, send } from "./api.js";
import { fill, h } from "./dom.js";
import { picturesIn } from "./pictures.js";
import { fileName, picture } from "./symbol.js";
import { bytes, plural } from "./text.js";
import { announce, button, errorContent, openDialog, percent, runOnce, saveBlob, showProgress, table } from "./ui.js";

// download saves a response in the browser's downloads and shows the progress
// in a banner.
export async function download(banner, title, fallbackName, path) {
	const progress = showProgress(banner, title);
	try {
		const response = await send("GET", path, { key: "client", signal: progress.signal });
		const name = fileName(response) ?? fallbackName;
		saveBlob(await collect(response, progress), name);
		announce(`${name} is in your downloads.`);
	} catch (error) {
		if (!progress.signal.aborted) throw error;
		announce("Canceled.");
	} finally {
		progress.panel.remove();
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
			throw new CanvasbackError(`The download was aborted after ${bytes(blob.size + size)}. Nothing was saved`, { status: 502 });
		});
		if (value) size += parts.push(value) && value.length;
		if (done || size > 16e6) {
			blob = new Blob([blob, ...parts], { type });
			[parts, size] = [[], 0];
		}
		if (done) return blob;
		const received = blob.size + size;
		if (total) [bar.max, bar.value] = [total, received];
		text.textContent = total ? percent(received, total) : `${bytes(received)}, total size unknown`;
	}
}

export const isLibrary = ({ name, type }) => /zip/.test(type) || /\.(zip|xml|drawio|json)$/i.test(name);

const [maxFiles, maxBytes] = [200, 32e6]; // of one upload

// uploads divides files into {name, files} for one request each. The names of the files
// in one are unique.
export function uploads(files) {
	const list = [];
	for (const file of files) {
		let last = list.at(-1);
		if (!last || last.files.length === maxFiles || last.size + file.size > maxBytes || last.files.some(({ name }) => name === file.name)) {
			last = { name: file.name, files: [], size: 0 };
			list.push(last);
		}
		last.files.push(file);
		last.size += file.size;
	}
	return list;
}

// importLibrary shows the result of a dry run and imports a zip, a draw.io library or
// Iconify JSON on confirmation. The promise ends when the dialog is closed.
export const importLibrary = (folder, file, imported) => new Promise((closed) => {
	const bar = h("progress", { "aria-label": "Upload" });
	const text = h("p");
	const content = h("div.stack");
	const stop = new AbortController();
	const { dialog, close } = openDialog({ title: `Import into ${folder.name}`, closed: () => (stop.abort(), closed()) }, content);
	const upload = (query, doing) => {
		text.textContent = `${doing} ${file.name}…`;
		fill(content, text, bar);
		const name = file.name.replace(/(.)\.[^.]+$/, "$1");
		return call("POST", `symbol/folders/${folder.id}/import?skip=true&name=${encodeURIComponent(name)}${query}`, { key: "client", body: file, headers: { "Content-Type": "application/octet-stream" }, signal: stop.signal, progress({ loaded, total }) {
			[bar.max, bar.value] = [total, loaded];
			text.textContent = `${doing} ${file.name}: ${percent(loaded, total)}`;
		} });
	};
	const attempt = async (action) => {
		await action().catch((error) => {
			if (stop.signal.aborted) return go.hasAttribute("aria-busy") && announce(`Stopped. ${file.name} may have been imported all the same.`);
			fill(
				content,
				h("div.problem", errorContent(error)),
				reasons("Rejected files", error.body?.rejected),
				h("footer", button("Close", { kind: "main", onclick: close })),
			);
		});
		dialog.querySelector("footer .main")?.focus();
	};
	const go = button("", { kind: "main", onclick: () => runOnce(go, () => attempt(async () => {
		const { imported: count, files } = await upload("", "Importing");
		close();
		await imported().catch(() => {}); // what is shown is old
		announce(`${plural(count, "symbol")} imported into ${folder.name}.`, async () => {
			for (let i = 0; i < files.length; i += 1000) {
				await call("POST", "symbol/symbols/delete", { key: "client", body: { ids: files.slice(i, i + 1000).map(({ symbolId }) => symbolId) } });
			}
			await imported();
		});
	})) });
	attempt(async () => {
		const { imported: count, files = [], ignored, skipped } = await upload("&dryRun=true", "Checking");
		const pictures = await picturesIn(file).catch(() => new Map()); // the server reads more than this page
		const preview = (one) => h("span.preview.mini", { "aria-hidden": "true" }, pictures.has(one.file) && lazyPicture(pictures.get(one.file), one.type));
		go.textContent = `Import ${plural(count, "symbol")}`;
		fill(content,
			h("p", count ? `${plural(count, "symbol")} will be added to ${folder.name}. Existing symbols are kept.` : "This file contains no symbols."),
			files.length > 0 && table("Files to import", ["", "File", "Symbol", "Type"], files.map((one) => [preview(one), one.file, one.name, one.type])),
			reasons("Files that are left out", skipped),
			reasons("Ignored files", ignored),
			h("footer", button("Cancel", { kind: count ? "quiet" : "main", onclick: close }), count > 0 && go));
	});
});

// lazyPicture shows a picture once it is scrolled to. read returns its bytes.
function lazyPicture(read, type) {
	const place = h("span");
	const seen = new IntersectionObserver(async ([{ isIntersecting }]) => {
		if (!isIntersecting) return;
		seen.disconnect();
		fill(place, picture(new Blob([await read()], { type }), ""));
	});
	seen.observe(place);
	return place;
}

const reasons = (title, list) => list?.length > 0 && table(title, [title, "Reason"], list.map((one) => [one.file, one.reason]));
