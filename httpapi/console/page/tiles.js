import { byId, fill, grow, h } from "./dom.js";
import { bytes } from "./format.js";
import { picture, read } from "./symboldata.js";
import { button, menuButton, openDialog, save } from "./ui.js";

// tiles shows symbols as a grid in an element. rename, move and remove are what
// the menu of a tile does.
export function tiles(body, { rename, move, remove }) {
	let items = [];
	let grown;
	const at = (id) => items.findIndex((one) => one.id === id);

	// Only what is near the window has a picture: a thousand drawings at once
	// bring a browser to its knees.
	const near = new IntersectionObserver((seen) => {
		for (const { target, isIntersecting } of seen) {
			const symbol = isIntersecting && items[at(Number(target.id.slice(5)))];
			fill(target.querySelector(".plate"), symbol && face(symbol, ""));
		}
	}, { rootMargin: "400px" });

	const self = {
		dragged: undefined, // the symbol under the pointer

		show(list) {
			items = [...list];
			near.disconnect();
			grown?.stop();
			const grid = h("ul.grid");
			fill(body, grid);
			grown = grow(grid, items, 60, tile);
		},

		add(symbol) {
			items.push(symbol);
			grown.added();
		},

		replace(symbol) {
			items[at(symbol.id)] = symbol;
			byId(`tile-${symbol.id}`)?.replaceWith(tile(symbol));
		},

		remove(id) {
			items.splice(at(id), 1);
			const node = byId(`tile-${id}`);
			if (node) grown.removed();
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
			}, h("span.plate", { "aria-hidden": "true" }), h("span.name", name)),
			menuButton(`Actions for ${name}`, `symbol-${id}-menu`, () => [
				["Rename…", () => rename(symbol)],
				["Move…", () => move(symbol)],
				["Download", () => download(symbol)],
				["Delete…", () => remove(symbol), "danger"],
			]));
		near.observe(node);
		return node;
	}
}

function face(symbol, alt) {
	const { blob } = read(symbol);
	return blob ? picture(blob, alt, (node) => node.replaceWith("This picture is broken.")) : h("code", symbol.data.slice(0, 120));
}

const extensions = { "svg+xml": "svg", jpeg: "jpg", "x-icon": "ico" };

function download(symbol) {
	const { blob } = read(symbol);
	const kind = blob?.type.slice(6);
	save(blob ?? new Blob([symbol.data]), `${symbol.name}.${extensions[kind] ?? kind ?? "txt"}`);
}

export function openSymbol(symbol, closed) {
	const { blob, about: { width, height } = {} } = read(symbol);
	const facts = { Type: symbol.type, Size: [width, height].every(Number.isFinite) && `${width} × ${height}`, Weight: bytes((blob ?? new Blob([symbol.data])).size), Id: symbol.id };
	return openDialog({ title: symbol.name, closed: () => (closed(), `symbol-${symbol.id}`) }, h("div.stack",
		h("div.plate.large", face(symbol, symbol.name)),
		h("dl", Object.entries(facts).map(([name, value]) => value && h("div", h("dt", name), h("dd", value)))),
		h("details", h("summary", "Data"), h("pre", { tabindex: "0" }, symbol.data.slice(0, 4000), symbol.data.length > 4000 && "…")),
		h("footer", button("Download", { kind: "main", symbol: "down", onclick: () => download(symbol) }))));
}
