import { byId, fill, growOnScroll, h } from "./dom.js";
import { bytes } from "./format.js";
import { decode, imageNode } from "./symboldata.js";
import { button, menuButton, openDialog, saveBlob } from "./ui.js";

// tiles shows symbols as a grid in an element. rename, move and remove are the
// menu actions of a tile.
export function tiles(body, { rename, move, remove }) {
	let items = [];
	let scroller;
	const indexOf = (id) => items.findIndex((one) => one.id === id);

	// Only tiles near the window have an image: browsers cannot handle a thousand
	// drawings at once.
	const observer = new IntersectionObserver((entries) => {
		for (const { target, isIntersecting } of entries) {
			const symbol = isIntersecting && items[indexOf(Number(target.id.slice(5)))];
			fill(target.querySelector(".preview"), symbol && preview(symbol, ""));
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
			}, h("span.preview", { "aria-hidden": "true" }), h("span.name", name)),
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

function preview(symbol, alt) {
	const { blob } = decode(symbol);
	return blob ? imageNode(blob, alt, (node) => node.replaceWith("Cannot be displayed.")) : h("code", symbol.data.slice(0, 120));
}

const extensions = { "svg+xml": "svg", jpeg: "jpg", "x-icon": "ico" };

function download(symbol) {
	const { blob } = decode(symbol);
	const kind = blob?.type.slice(6);
	saveBlob(blob ?? new Blob([symbol.data]), `${symbol.name}.${extensions[kind] ?? kind ?? "txt"}`);
}

export function openSymbol(symbol, closed) {
	const { blob, about: { width, height } = {} } = decode(symbol);
	const facts = { Type: symbol.type, Dimensions: [width, height].every(Number.isFinite) && `${width} × ${height}`, Size: bytes((blob ?? new Blob([symbol.data])).size), ID: symbol.id };
	return openDialog({ title: symbol.name, closed: () => (closed(), `symbol-${symbol.id}`) }, h("div.stack",
		h("div.preview.large", preview(symbol, symbol.name)),
		h("dl", Object.entries(facts).map(([name, value]) => value && h("div", h("dt", name), h("dd", value)))),
		h("details", h("summary", "Data"), h("pre", { tabindex: "0" }, symbol.data.slice(0, 4000), symbol.data.length > 4000 && "…")),
		h("footer", button("Download", { kind: "main", symbol: "down", onclick: () => download(symbol) }))));
}
