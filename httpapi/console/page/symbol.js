import { call, send } from "./api.js";
import { bytes, fill, h, newId } from "./dom.js";
import { button, copyText, errorContent, iconButton, menuButton, openDialog, saveBlob } from "./ui.js";

// The data of a symbol is any text. Front ends use JSON with name, type, content
// (base64), width and height. Images are shown in an <img>, where no script runs.

const imageType = /^image\/[a-z0-9.+-]+$/i;
const svg = "image/svg+xml";

const get = ({ id }, signal) => call("GET", `symbol/symbols/${id}`, { key: "client", signal });

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

// preview returns the image of a symbol, or the start of its data.
export async function preview(symbol, alt, signal) {
	const image = await imageOf(symbol, signal);
	if (!image) return h("code", (await get(symbol, signal)).data.slice(0, 120));
	const node = new Image();
	node.alt = alt;
	node.draggable = false;
	node.src = URL.createObjectURL(image.blob);
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
// actions(symbol) the entries of its menu; moved is called when another one is
// shown.
export function openSymbol(symbol, { list, actions, moved, closed }) {
	const content = h("div.stack", h("div.preview.large"));
	const group = newId();
	const step = (by) => {
		const to = list()[list().findIndex(({ id }) => id === symbol.id) + by];
		if (to) show(to);
	};
	const [back, next] = [iconButton("back", "Previous symbol", { onclick: () => step(-1) }), iconButton("next", "Next symbol", { onclick: () => step(1) })];
	const { dialog, close, titleNode } = openDialog({ title: "", closed: () => (closed(), `symbol-${symbol.id}`), closedFirst: true, tools: [back, next] }, content);
	dialog.addEventListener("keydown", (event) => {
		const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (by && !event.target.closest("input, pre, .menu")) step(by);
	});
	show(symbol);
	return { close, show, update, shown: () => symbol };

	// update shows whether there are other symbols before and after this one.
	function update() {
		const all = list();
		const at = all.findIndex(({ id }) => id === symbol.id);
		[back.ariaDisabled, next.ariaDisabled] = [at < 1, at < 0 || at === all.length - 1];
	}

	async function show(to) {
		symbol = to;
		update();
		titleNode.textContent = to.name;
		moved(to);
		try {
			const [{ data, type }, shown] = await Promise.all([get(to), preview(to, to.name)]);
			if (symbol !== to) return; // another one is shown meanwhile
			const facts = { Type: type, Dimensions: dimensions(data), Size: bytes(new Blob([data]).size), ID: to.id };
			const copies = () => [["Copy ID", () => copyText(String(to.id))], ["Copy data", () => copyText(data)], ...actions(to)];
			fill(content,
				h("div.preview.large", shown),
				plates(group),
				h("dl", Object.entries(facts).map(([name, value]) => value && h("div", h("dt", name), h("dd", value)))),
				h("details", h("summary", "Data"), h("pre", { tabindex: "0" }, data.slice(0, 4000), data.length > 4000 && "…")),
				h("footer", menuButton("More actions", "symbol-menu", copies), button("Download", { kind: "main", symbol: "down", onclick: () => saveSymbol(to).catch(fail) })));
		} catch (error) {
			fail(error);
		}
	}

	function fail(error) {
		content.prepend(h("div.problem", errorContent(error)));
	}
}

// plates is a choice of the ground behind symbols, here and in the grid.
function plates(group) {
	const { dataset } = document.documentElement;
	return h("fieldset.actions", h("legend.visually-hidden", "Ground"), ["Light", "Dark", "Checker"].map((name) =>
		h("label", h("input", { type: "radio", name: group, checked: (dataset.plate ?? "Light") === name, onchange: () => (dataset.plate = name) }), h("span.button.small", name))));
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

// encode returns the fields of a symbol for an image file.
export async function encode(file) {
	const type = file.type || (/\.svg$/i.test(file.name) ? svg : "");
	if (!imageType.test(type)) throw new Error("Not an image.");
	const name = file.name.replace(/(.)\.[^.]+$/, "$1");
	const size = await imageSize(new Blob([file], { type }));
	return { name: [...name].slice(0, 255).join(""), type, data: JSON.stringify({ name, type, content: await base64(file), ...size }) };
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
	if (blob.type !== svg) return size;
	// Browsers differ in the size of an SVG without width and height.
	const [root] = /<svg[^>]*>/i.exec(await blob.text()) ?? [""];
	const [, width, height] = /viewBox=["'][^"']*?([\d.]+)[\s,]+([\d.]+)\s*["']/.exec(root) ?? [];
	return /\swidth=/.test(root) || !(width > 0 && height > 0) ? size : { width: Math.round(width), height: Math.round(height) };
}

const base64 = (file) => new Promise((resolve, reject) => {
	const reader = new FileReader();
	reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
	reader.onerror = () => reject(new Error("The file cannot be read."));
	reader.readAsDataURL(file);
});
