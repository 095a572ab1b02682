// Elements are created one by one, so text is never parsed as markup.

// h creates an element: h("p#id.class", {name: value}, ...children). All but
// the tag is optional.
export function h(selector, ...children) {
	const [, tag, id, classes] = /^(\w+)(?:#([\w-]+))?(?:\.(.+))?$/.exec(selector);
	const node = document.createElement(tag);
	if (id) node.id = id;
	if (classes) node.className = classes.replaceAll(".", " ");
	const props = children[0]?.constructor === Object ? children.shift() : {};
	for (const [name, value] of Object.entries(props)) {
		if (value === undefined || value === false) continue;
		if (typeof value === "function") node.addEventListener(name.slice(2), value);
		else if (name === "value") node.value = value;
		else node.setAttribute(name, value === true ? "" : value);
	}
	return fill(node, children);
}

// fill replaces the children of an element by nodes, texts and nested arrays of
// them. False and empty values are omitted.
export function fill(node, ...children) {
	node.replaceChildren(...children.flat(Infinity).filter((child) => child || child === 0));
	return node;
}

export const byId = (id) => document.getElementById(id);

const icons = {
	check: "M5 12.5l4.5 4.5L19 7.5",
	close: "M6 6l12 12M18 6L6 18",
	copy: "M9 9h10v11H9zM5 15V4h10",
	down: "M12 4v11m-4.5-4.5L12 15l4.5-4.5M5 20h14",
	folder: "M3.5 18.5v-13h6l2 2.5h9v10.5z",
	key: "M15 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M11 13l-7 7M7 17l2.5 2.5",
	more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
	plus: "M12 5v14M5 12h14",
	reload: "M19.5 12a7.5 7.5 0 1 1-2.2-5.3L19.5 9M19.5 4v5h-5",
	warning: "M12 4l9 16H3zM12 10v4.5M12 17.5h.01",
};

// icon returns a decorative icon, hidden from assistive technology.
export function icon(name) {
	const [svg, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
	svg.setAttribute("class", `icon ${name}`);
	svg.setAttribute("viewBox", "0 0 24 24");
	svg.setAttribute("aria-hidden", "true");
	path.setAttribute("d", icons[name]);
	svg.append(path);
	return svg;
}

let count = 0;

export const newId = () => `u${++count}`;

// growOnScroll appends items to a container in batches, the next one when the
// end of the container is near the window.
export function growOnScroll(container, items, batch, render) {
	let next = 0;
	const end = h("div");
	const more = () => {
		container.append(...items.slice(next, next + batch).map(render));
		next = Math.min(next + batch, items.length);
		observer.unobserve(end); // observe reports an end that is still near
		if (next < items.length) observer.observe(end);
	};
	const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && more(), { rootMargin: "800px" });
	container.after(end);
	more();
	return {
		added: () => next === items.length - 1 && more(),
		removed: () => next--, // an item that is shown
		stop: () => observer.disconnect(),
	};
}
