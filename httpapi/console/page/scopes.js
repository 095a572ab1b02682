import { h } from "./dom.js";
import { field } from "./ui.js";

const known = {
	"exports:read": "Download exports",
	"exports:register": "Register exports",
	"symbols:read": "Read symbols",
	"symbols:write": "Change symbols",
};

const checkbox = (text, checked, onchange) => {
	const input = h("input", { type: "checkbox", checked, onchange });
	return { input, node: h("label.check", input, text) };
};

// permissions is a field for the scopes of a key; current is their list, or null
// for everything.
export function permissions(current = null) {
	const all = checkbox("Everything", current === null, render);
	const boxes = Object.entries(known).map(([scope, text]) => ({ scope, ...checkbox(text, !!current?.includes(scope)) }));
	const others = h("input", { value: (current ?? []).filter((scope) => !known[scope]).join(" "), pattern: "[a-z0-9:._\\- ]*", title: "a-z 0-9 : . _ -" });
	const limits = h("div.stack", boxes.map(({ node }) => node), field("Other scopes", others, "Of the application, separated by spaces."));
	const node = h("fieldset", h("legend", "Permits"), all.node, limits);
	render();
	return { node, value };

	// value returns the list to send, or null.
	function value() {
		if (all.input.checked) return null;
		return [...boxes.filter(({ input }) => input.checked).map(({ scope }) => scope), ...others.value.split(" ").filter(Boolean)];
	}

	function render() {
		limits.hidden = all.input.checked;
	}
}

// ownerField is a field for the owner of a key; current is its value, or null.
export function ownerField(current) {
	const input = h("input", { value: current ?? "", maxlength: 255 });
	return { node: field("Owner", input, "The tenant or team that the key belongs to. Optional."), value: () => (input.value.trim() ? input.value : null) };
}

const overlaps = [[0, "Immediately"], [3600, "In an hour"], [86400, "In a day"], [604800, "In a week"]];

// overlapField is a field for the time for which the previous raw key stays valid.
export function overlapField() {
	const select = h("select", overlaps.map(([seconds, text]) => h("option", { value: seconds }, text)));
	return { node: field("The current raw key stops working", select), value: () => Number(select.value) };
}
