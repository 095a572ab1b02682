// Elements are created one by one, so text is never parsed as markup.

import { ago, exact } from "./text.js";

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
// them. False and empty values are omitted. An element that keeps its id keeps the
// focus.
export function fill(node, ...children) {
	const id = node.firstChild && document.activeElement?.id;
	node.replaceChildren(...children.flat(Infinity).filter((child) => child || child === 0));
	if (id && document.activeElement === document.body) byId(id)?.focus({ preventScroll: true });
	return node;
}

export const byId = (id) => document.getElementById(id);

const icons = {
	back: "M14.5 5l-7 7 7 7",
	check: "M5 12.5l4.5 4.5L19 7.5",
	close: "M6 6l12 12M18 6L6 18",
	copy: "M9 9h10v11H9zM5 15V4h10",
	down: "M12 4v11m-4.5-4.5L12 15l4.5-4.5M5 20h14",
	folder: "M3.5 18.5v-13h6l2 2.5h9v10.5z",
	key: "M15 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M11 13l-7 7M7 17l2.5 2.5",
	more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
	next: "M9.5 5l7 7-7 7",
	plus: "M12 5v14M5 12h14",
	reload: "M19.5 12a7.5 7.5 0 1 1-2.2-5.3L19.5 9M19.5 4v5h-5",
	warning: "M12 4l9 16H3zM12 10v4.5M12 17.5h.01",
};

// svg creates an element of a drawing.
export function svg(tag, attributes, ...children) {
	const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
	node.append(...children);
	return node;
}

// icon returns a decorative icon, hidden from assistive technology.
export const icon = (name) =>
	svg("svg", { class: `icon ${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: icons[name] }));

let lastId = 0;

export const newId = () => `u${++lastId}`;

export const timeNode = (at, format = ago) => h("time", { datetime: at, title: `${exact(at)} (${at})` }, format(at));
