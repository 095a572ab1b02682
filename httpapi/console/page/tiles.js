import { call } from "./api.js";
import { byId, fill, growOnScroll, h } from "./dom.js";
import { bytes } from "./format.js";
import { imageNode, imageOf } from "./symboldata.js";
import { button, errorContent, menuButton, openDialog, saveBlob } from "./ui.js";

// tiles shows symbols as a grid in an element. rename, move and remove are the
// menu actions of a tile, note returns a text to show below its name.
export function tiles(body, { rename, move, remove, download, note }) {
	let items = [];
	let scroller;
	const indexOf = (id) => items.findIndex((one) => one.id === id);

	// Only tiles near the window have an image: browsers cannot handle a thousand
	// drawings at once.
	const loads = new WeakMap(); // controllers by tile
	const observer = new IntersectionObserver((entries) => {
		for (const { target, isIntersecting } of entries) {
			const plate = fill(target.querySelector(".preview"));
			loads.get(target)?.abort();
			const symbol = isIntersecting && items[indexOf(Number(target.id.slice(5)))];
			if (!symbol) continue;
			const load = new AbortController();
			loads.set(target, load);
			preview(symbol, "", load.signal).then((node) => fill(plate, node), () => {});
		}
	}, { rootMargin: "400px" });

	const self = {
		dragged: undefined, // symbol

		show(list) {
			items = [...list];
			observer.disconnect();
			scroller?.stop();
			const grid = h("ul.grid");
			fill(body, grid);
			scroller = growOnScroll(grid, items, 60, tile);
		},

		add(symbol) {
			items.push(symbol);
			scroller.added();
		},

		replace(symbol) {
			items[indexOf(symbol.id)] = symbol;
			byId(`tile-${symbol.id}`)?.replaceWith(tile(symbol));
		},

		remove(id) {
			items.splice(indexOf(id), 1);
			const node = byId(`tile-${id}`);
			if (node) scroller.removed();
			node?.remove();
		},
	};
	return self;

	function tile(symbol) {
		const { id, name, folderId } = symbol;
		const node = h("li.tile", { id: `tile-${id}` },
			h("a", {
				href: `#/symbols/${folderId}/${id}`,
				id: `symbol-${id}`,
				draggable: "true",
				ondragstart({ dataTransfer }) {
					self.dragged = symbol;
					dataTransfer.setData("text/plain", name);
					dataTransfer.effectAllowed = "move";
				},
				ondragend: () => (self.dragged = undefined),
			}, h("span.preview", { "aria-hidden": "true" }), h("span.name", name, note(symbol) && h("span.hint", note(symbol)))),
			menuButton(`Actions for ${name}`, `symbol-${id}-menu`, () => [
				["Rename…", () => rename(symbol)],
				["Move…", () => move(symbol)],
				["Download", () => download(symbol)],
				["Delete…", () => remove(symbol), "danger"],
			]));
		observer.observe(node);
		return node;
	}
}

const get = ({ id }, signal) => call("GET", `symbol/symbols/${id}`, { key: "client", signal });

// preview returns the image of a symbol, or the start of its data.
async function preview(symbol, alt, signal) {
	const image = await imageOf(symbol, signal);
	if (image) return imageNode(image.blob, alt, (node) => node.replaceWith("Cannot be displayed."));
	return h("code", (await get(symbol, signal)).data.slice(0, 120));
}

export async function saveSymbol(symbol) {
	const { blob, name } = await imageOf(symbol) ?? { blob: new Blob([(await get(symbol)).data]), name: `${symbol.name}.txt` };
	saveBlob(blob, name);
}

export function openSymbol(symbol, closed) {
	const content = h("div.stack");
	const opened = openDialog({ title: symbol.name, closed: () => (closed(), `symbol-${symbol.id}`) }, content);
	const fail = (error) => content.prepend(h("div.problem", errorContent(error)));
	Promise.all([get(symbol), preview(symbol, symbol.name)]).then(([{ id, type, data }, shown]) => {
		const facts = { Type: type, Dimensions: dimensions(data), Size: bytes(new Blob([data]).size), ID: id };
		fill(content,
			h("div.preview.large", shown),
			h("dl", Object.entries(facts).map(([name, value]) => value && h("div", h("dt", name), h("dd", value)))),
			h("details", h("summary", "Data"), h("pre", { tabindex: "0" }, data.slice(0, 4000), data.length > 4000 && "…")),
			h("footer", button("Download", { kind: "main", symbol: "down", onclick: () => saveSymbol(symbol).catch(fail) })));
	}).catch(fail);
	return opened;
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
