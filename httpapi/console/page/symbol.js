import { call, imageURL, send } from "./api.js";
import { fill, h, newId, timeNode } from "./dom.js";
import { bytes } from "./text.js";
import { button, copyText, errorContent, formDialog, iconButton, menuButton, openDialog, saveBlob } from "./ui.js";

// The data of a symbol is any text. Front ends use JSON with name, type, content
// (base64), width and height. Images are shown in an <img>, where no script runs.

export const isPicture = ({ name, type }) => type.startsWith("image/") || /\.svg$/i.test(name);

const imageType = /^image\/[a-z0-9.+-]+$/i;
const svgType = "image/svg+xml";

const details = "?fields=id,name,type,folderId,data,tags,createdAt,updatedAt,updatedBy";

const get = ({ id }, signal) => call("GET", `symbol/symbols/${id}${details}`, { key: "client", signal });

// imageOf returns the image of a symbol as {blob, name}, or undefined if it has
// none.
async function imageOf({ id }, signal) {
	try {
		const response = await send("GET", `symbol/symbols/${id}/image`, { key: "client", signal, optional: true });
		return { blob: await response.blob(), name: fileName(response) };
	} catch (error) {
		if (error.status !== 404) throw error;
	}
}

const retryPause = 10_000; // milliseconds at most

// thumbnail shows the image of a symbol, or the start of its data, until the signal is
// aborted. While the server does not respond, it tries again.
export function thumbnail(symbol, place, signal) {
	showThumbnail(symbol, place, signal).catch(({ status, retryAfter }) => {
		if (status >= 400 && status < 500 && !retryAfter) return;
		setTimeout(() => signal.aborted || thumbnail(symbol, place, signal), retryPause * (0.5 + Math.random() / 2));
	});
}

async function showThumbnail(symbol, place, signal) {
	const url = await imageURL(symbol.id, symbol.version ?? symbol.updatedAt);
	if (signal.aborted) return;
	const node = new Image();
	node.alt = "";
	node.draggable = false;
	const failed = new Promise((resolve) => (node.onerror = resolve));
	signal.addEventListener("abort", () => node.removeAttribute("src")); // ends the request
	node.src = url;
	fill(place, node);
	await failed;
	if (!signal.aborted) await instead(symbol, place, signal);
}

async function instead(symbol, place, signal) {
	const image = await imageOf(symbol, signal);
	fill(place, image ? picture(image.blob, "") : h("code", (await get(symbol, signal)).data.slice(0, 120)));
}

// picture shows an image that is in memory.
export function picture(blob, alt) {
	const node = new Image();
	node.alt = alt;
	node.draggable = false;
	node.src = URL.createObjectURL(blob);
	node.onload = node.onerror = ({ type }) => {
		URL.revokeObjectURL(node.src);
		if (type === "error") node.replaceWith("Cannot be displayed.");
	};
	return node;
}

export async function saveSymbol(symbol) {
	const { blob, name } = await imageOf(symbol) ?? { blob: new Blob([(await get(symbol)).data]), name: `${symbol.name}.txt` };
	saveBlob(blob, name);
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

// openSymbol shows a symbol in a dialog. list returns the symbols around it,
// actions(symbol) the entries of its menu; moved is called when another one, or another
// ground, is shown, dropped with the symbol and the files that are dropped on it.
export function openSymbol(symbol, { ground, list, actions, moved, closed, dropped }) {
	const content = h("div.stack", h("div.preview.large"));
	const group = newId();
	const step = (by) => {
		const at = list().findIndex(({ id }) => id === symbol.id);
		if (at >= 0 && list()[at + by]) show(list()[at + by]);
	};
	const [back, next] = [iconButton("back", "Previous symbol", { onclick: () => step(-1) }), iconButton("next", "Next symbol", { onclick: () => step(1) })];
	const { dialog, close, titleNode } = openDialog({ title: "", closed: () => (loading.abort(), closed(), `symbol-${symbol.id}`), closedFirst: true, tools: [back, next] }, content);
	dialog.addEventListener("keydown", (event) => {
		const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (by && !event.target.closest("input, pre, .menu")) step(by);
	});
	dialog.addEventListener("dragover", (event) => {
		event.preventDefault();
		event.dataTransfer.dropEffect = "copy";
	});
	dialog.addEventListener("drop", (event) => dropped(symbol, [...event.dataTransfer.files]));
	let loading = new AbortController();
	show(symbol);
	return { close, show, update, shown: () => symbol };

	// update shows whether there are other symbols before and after this one.
	function update() {
		const all = list();
		const at = all.findIndex(({ id }) => id === symbol.id);
		[back.ariaDisabled, next.ariaDisabled] = [at < 1, at < 0 || at === all.length - 1];
	}

	// show reads a symbol. It ends what is being read: a held arrow key asks for many.
	async function show(to) {
		loading.abort();
		loading = new AbortController();
		const { signal } = loading;
		symbol = to;
		update();
		titleNode.textContent = to.name;
		moved(to);
		try {
			const [{ data, type, tags, createdAt, updatedAt, updatedBy }, image] = await Promise.all([get(to, signal), imageOf(to, signal)]);
			const facts = {
				Type: type,
				Dimensions: dimensions(data),
				Size: bytes(new Blob([data]).size),
				ID: to.id,
				Tags: tags.join(", "),
				Created: timeNode(createdAt),
				Changed: updatedAt !== createdAt && [timeNode(updatedAt), updatedBy && ` by key ${updatedBy}`],
			};
			const url = image && await dataURL(image.blob);
			const drawing = image?.blob.type.startsWith(svgType) && await image.blob.text();
			if (signal.aborted) return; // another one is shown meanwhile
			const copies = () => [
				["Copy ID", () => copyText(String(to.id))],
				["Copy data", () => copyText(data)],
				...(drawing ? [["Copy as SVG", () => copyText(drawing)]] : []),
				...(image ? [["Copy as data URL", () => copyText(url)]] : []),
				...actions(to),
			];
			fill(content,
				h("div.preview.large", image ? picture(image.blob, to.name) : h("code", data.slice(0, 120))),
				groundField(group, ground, () => moved(symbol)),
				h("dl", Object.entries(facts).map(([name, value]) => value && h("div", h("dt", name), h("dd", value)))),
				h("details", h("summary", "Data"), h("pre", { tabindex: "0" }, data.slice(0, 4000), data.length > 4000 && "…")),
				h("footer", menuButton("More actions", "symbol-menu", copies), button("Download", { kind: "main", symbol: "down", onclick: () => saveSymbol(to).catch(fail) })));
		} catch (error) {
			if (!signal.aborted) fill(content, h("div.problem", errorContent(error)));
		}
	}

	function fail(error) {
		content.prepend(h("div.problem", errorContent(error)));
	}
}

export const grounds = ["Light", "Dark", "Checker"];

// groundField is a choice of the ground behind symbols, here and in the grid.
function groundField(group, ground, changed) {
	const choice = (name) => {
		const checked = (ground.value ?? grounds[0]) === name;
		const onchange = () => {
			ground.value = name;
			changed();
		};
		return h("label", h("input", { type: "radio", name: group, checked, onchange }), h("span.button.small", name));
	};
	return h("fieldset.actions", h("legend.visually-hidden", "Ground"), grounds.map(choice));
}

// dimensions returns the size that front ends store in the data.
function dimensions(data) {
	try {
		const { width, height } = JSON.parse(data);
		return [width, height].every(Number.isFinite) && `${width} × ${height}`;
	} catch {
		return ""; // not JSON
	}
}

// replacePicture asks whether a file replaces the picture of a symbol, and calls run with
// the new and the old {type, data}. The data keeps its form: JSON, a data URL or SVG. add
// is called if the file is to be a symbol of its own.
export async function replacePicture(symbol, file, { run, add }) {
	const type = file.type || (/\.svg$/i.test(file.name) ? svgType : "");
	if (!imageType.test(type)) throw new Error(`${file.name} is not an image.`);
	const blob = new Blob([file], { type });
	const size = await imageSize(blob);
	const [image, url] = [await imageOf(symbol), await dataURL(blob)];
	const apart = h("input", { type: "checkbox" });
	return formDialog({ title: `Replace the picture of ${symbol.name}?`, submit: "Replace", async run() {
		if (apart.checked) return add(file);
		const before = await get(symbol);
		return run({ type, data: dataLike(before.data, { type, url, size }) }, { type: before.type, data: before.data });
	} },
	h("div.before-after",
		h("figure", h("div.preview", image ? picture(image.blob, "The current picture") : "No picture"), h("figcaption.hint", "Now")),
		h("figure", h("div.preview", picture(blob, "The new picture")), h("figcaption.hint", file.name))),
	h("p", "Its id, name, tags and folder stay."),
	h("label.check", apart, "Add it as a new symbol instead"));
}

// dataLike returns the data for a picture in the form of other data.
function dataLike(data, { type, url, size }) {
	const content = url.slice(url.indexOf(",") + 1);
	try {
		return JSON.stringify({ ...JSON.parse(data), type, content, ...size });
	} catch {
		// not JSON
	}
	return data.trimStart().startsWith("<") && type === svgType ? new TextDecoder().decode(Uint8Array.from(atob(content), (c) => c.charCodeAt(0))) : url;
}

async function imageSize(blob) {
	const image = new Image();
	image.src = URL.createObjectURL(blob);
	try {
		await image.decode();
	} catch {
		throw new Error("The browser cannot decode the image.");
	} finally {
		URL.revokeObjectURL(image.src);
	}
	const size = { width: image.naturalWidth, height: image.naturalHeight };
	if (blob.type !== svgType) return size;
	// Browsers differ in the size of an SVG without width and height.
	const [root] = /<svg[^>]*>/i.exec(await blob.text()) ?? [""];
	const [, width, height] = /viewBox=["'][^"']*?([\d.]+)[\s,]+([\d.]+)\s*["']/.exec(root) ?? [];
	return /\swidth=/.test(root) || !(width > 0 && height > 0) ? size : { width: Math.round(width), height: Math.round(height) };
}

const dataURL = (blob) => new Promise((resolve, reject) => {
	const reader = new FileReader();
	reader.onload = () => resolve(reader.result);
	reader.onerror = () => reject(new Error("The file cannot be read."));
	reader.readAsDataURL(blob);
});
