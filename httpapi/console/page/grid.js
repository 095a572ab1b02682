import { byId, h } from "./dom.js";

const [minWidth, gap, top] = [8.6, 0.75, 9]; // in rem; top is what may cover the grid

// virtualGrid shows any number of records as tiles, of which only those near the
// window are in the page. tile creates the element of a record, which has a link
// with the id symbol-N; gone is called when the element is removed. The grid is one
// tab stop; arrow keys move in it.
export function virtualGrid(tile, gone) {
	let items = [];
	let text; // height of the text of a tile in rem
	let active; // the tab stop
	let [columns, height] = [1, 1];
	const nodes = new Map(); // elements by record
	const node = h("ul.grid", {
		onfocusin: ({ target }) => (active = items.find(({ id }) => target.closest("li").id === `tile-${id}`)),
		onkeydown(event) {
			const at = items.indexOf(active);
			const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: items.length - 1 }[event.key];
			if (!items[to] || event.target.tagName !== "A") return;
			event.preventDefault();
			focus(to);
		},
	});
	const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
	new ResizeObserver(render).observe(node);
	addEventListener("scroll", render, { passive: true });

	function render() {
		if (!node.isConnected) return;
		const unit = rem();
		columns = Math.max(1, Math.floor((node.clientWidth + gap * unit) / ((minWidth + gap) * unit)));
		const width = (node.clientWidth + gap * unit) / columns;
		height = width + text * unit;
		node.style.height = `${Math.ceil(items.length / columns) * height}px`;
		const above = -node.getBoundingClientRect().top;
		const near = innerHeight * 0.6;
		const wanted = new Set(items.slice(Math.max(0, Math.floor((above - near) / height) * columns), Math.max(0, Math.ceil((above + innerHeight + near) / height) * columns)));
		const { id } = document.activeElement;
		const focused = node.contains(document.activeElement) && items.find((one) => id === `symbol-${one.id}`);
		if (focused) wanted.add(focused);
		drop((item) => wanted.has(item));
		let cursor = node.firstChild;
		let stop;
		const first = items.indexOf(wanted.values().next().value);
		let i = first;
		for (const item of wanted) {
			if (item !== items[i]) i = items.indexOf(item); // the focused one is elsewhere
			const one = nodes.get(item) ?? tile(item);
			nodes.set(item, one);
			if (one === cursor) cursor = cursor.nextSibling;
			else node.insertBefore(one, cursor);
			const y = Math.floor(i / columns) * height;
			one.style.transform = `translate(${(i % columns) * width}px, ${y}px)`;
			one.style.width = `${width - gap * unit}px`;
			one.ariaSetSize = items.length;
			one.ariaPosInSet = i + 1;
			if (item === active || (stop !== active && y < above)) stop = item;
			stop ??= item;
			i++;
		}
		for (const [item, one] of nodes) one.querySelector("a").tabIndex = item === stop ? 0 : -1;
		if (id && document.activeElement === document.body) byId(id)?.focus({ preventScroll: true });
	}

	// drop removes the tiles that are not to be kept. Those near the window are created
	// again when the grid is shown.
	function drop(keep) {
		for (const [item, one] of nodes) {
			if (keep(item, one)) continue;
			nodes.delete(item);
			one.remove();
			gone(one);
		}
	}

	function focus(i) {
		reveal(i);
		byId(`symbol-${items[i].id}`)?.focus({ preventScroll: true });
	}

	// reveal scrolls to a record, which becomes the tab stop.
	function reveal(i) {
		active = items[i];
		const y = node.getBoundingClientRect().top + Math.floor(i / columns) * height;
		if (y < top * rem()) scrollBy(0, y - top * rem());
		else if (y + height > innerHeight) scrollBy(0, y + height - innerHeight);
		render();
	}

	return {
		node,
		drop,
		reveal: (item) => node.isConnected && items.includes(item) && reveal(items.indexOf(item)),

		// show replaces the records, whose tiles have a text of some height in rem.
		show(list, textHeight) {
			[items, text] = [list, textHeight];
			render();
		},
	};
}
