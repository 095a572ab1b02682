// The tiles of symbols, and what is dropped on them and on folders.

import { h } from "./dom.js";
import { virtualGrid } from "./grid.js";
import { isPicture, thumbnail } from "./symbol.js";
import { menuButton, openMenu } from "./ui.js";

const atRest = 6; // pictures that begin to load in a frame, unless the page is scrolled
const fast = 200; // pixels in a frame

// createTiles returns the grid of a library. chosen is the selection, actions what a
// tile offers.
export function createTiles(library, chosen, actions) {
	const loads = new WeakMap(); // image loads by tile
	let waiting = []; // {symbol, plate, signal} of pictures, the last one is the next
	let older = 0; // number of those that waited in the frame before
	let position; // scrollY in that frame
	let dragged; // symbols
	const grid = virtualGrid(tile, (node) => loads.get(node).abort());
	const { found } = library;

	function tile(symbol) {
		const { id, name, folderId } = symbol;
		const plate = h("span.preview", { "aria-hidden": "true" });
		const toggle = (range) => chosen.toggle(id, range, found.value.map((one) => one.id));
		const these = () => (chosen.ids.has(id) ? actions.selected() : [symbol]);
		const box = h("input", { type: "checkbox", tabindex: "-1", value: id, "aria-label": `Select ${name}`, onclick: (event) => toggle(event.shiftKey) });
		box.checked = chosen.ids.has(id);
		const entries = () => actions.entries(symbol);
		const menu = menuButton(`Actions for ${name}`, `symbol-${id}-menu`, entries, { tabindex: "-1" });
		const link = h("a", {
			href: `#/symbols/${folderId}/${id}`,
			id: `symbol-${id}`,
			draggable: "true",
			onkeydown(event) {
				const action = {
					" ": () => toggle(event.shiftKey),
					F2: () => actions.rename(symbol),
					Delete: () => actions.remove(these()),
				}[event.key];
				if (!action) return;
				event.preventDefault();
				action();
			},
			onclick(event) {
				if (!event.shiftKey) return;
				event.preventDefault();
				toggle(true);
			},
			ondragstart({ dataTransfer }) {
				dragged = these();
				dataTransfer.setData("text/plain", name);
				dataTransfer.effectAllowed = "move";
			},
			ondragend: () => (dragged = undefined),
		}, plate, h("span.name", { title: name }, name), library.place.value.text && h("span.hint", library.named(folderId)?.name));
		const node = h("li.tile", { id: `tile-${id}`, oncontextmenu(event) {
			event.preventDefault();
			openMenu(menu, name, entries());
		} }, link, box, menu);
		const load = new AbortController();
		loads.set(node, load);
		if (!waiting.length) requestAnimationFrame(loadSome);
		waiting.splice(older, 0, { symbol, plate, signal: load.signal });
		return node;
	}

	// loadSome loads pictures of the latest tiles. Each occupies the page for 5 to 10 ms, so
	// that it is one in a frame while the page is scrolled, and none while that is fast.
	function loadSome() {
		const moved = Math.abs(scrollY - position);
		const count = moved ? Number(moved < fast) : atRest;
		position = scrollY;
		waiting = waiting.filter(({ signal }) => !signal.aborted);
		const latest = waiting.splice(Math.max(0, waiting.length - count));
		for (const { symbol, plate, signal } of latest.reverse()) {
			thumbnail(symbol, plate, signal);
		}
		older = waiting.length;
		if (older) requestAnimationFrame(loadSome);
	}

	// acceptDrops accepts files and tiles of other folders on an element. target returns
	// the folder.
	function acceptDrops(node, target) {
		const accepts = (to, { types }) => (dragged ? dragged.some(({ folderId }) => folderId !== to.id) : types.includes("Files"));
		const on = (type, action) => node.addEventListener(type, (event) => {
			const to = target();
			if (to && accepts(to, event.dataTransfer)) action(event, to);
		});
		on("dragover", (event) => {
			event.preventDefault();
			event.dataTransfer.dropEffect = dragged ? "move" : "copy";
			node.classList.add("over");
		});
		on("dragleave", (event) => node.contains(event.relatedTarget) || node.classList.remove("over"));
		on("drop", (event, to) => {
			node.classList.remove("over");
			if (dragged) return actions.move(dragged, to.id);
			const files = [...event.dataTransfer.files];
			const onto = files.length === 1 && isPicture(files[0]) && symbolAt(event.target);
			if (onto) actions.replaceBy(onto, files[0]);
			else actions.add(files, to);
		});
	}

	// symbolAt returns the symbol whose tile contains an element.
	function symbolAt(node) {
		const tileNode = node.closest(".tile");
		return tileNode && library.symbols.value.get(Number(tileNode.id.replace("tile-", "")));
	}

	return {
		node: grid.node,
		acceptDrops,
		reveal: grid.reveal,

		show() {
			grid.show(found.value, library.place.value.text ? 5.3 : 3.9);
		},

		// select shows which symbols are selected.
		select() {
			for (const box of grid.node.querySelectorAll("input")) box.checked = chosen.ids.has(Number(box.value));
			grid.node.classList.toggle("selecting", chosen.ids.size > 0);
		},

		// leave ends the loads of images, which would occupy the connections that the next
		// screen needs.
		leave() {
			grid.drop((_, node) => {
				const shown = node.querySelector(".preview").firstChild;
				return shown && shown.complete !== false;
			});
		},
	};
}
