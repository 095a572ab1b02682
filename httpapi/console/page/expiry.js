import { h, newId } from "./dom.js";
import { exact } from "./format.js";

const choices = [["", "Never"], [30, "30 days"], [90, "90 days"], [365, "1 year"], ["date", "Date"]];

// expiryField is a field for the expiry of a key; current is its current value.
export function expiryField(current) {
	const group = newId();
	const now = Date.now();
	const currentDay = current && day(new Date(current) - 1);
	const input = h("input", { type: "date", "aria-label": "Last day", value: currentDay ?? "", oninput: render });
	const hint = h("p.hint");
	const node = h("fieldset", h("legend", "Expires"), h("div.actions", choices.map(([value, text]) =>
		h("label", h("input", { type: "radio", name: group, value, checked: value === (current ? "date" : ""), onchange: render }), h("span.button.small", text)))), input, hint);
	render();
	return { node, value };

	// value returns the time to send, or null. A key expires at the end of the
	// chosen day in local time.
	function value() {
		const choice = node.querySelector(":checked").value;
		if (!choice) return null;
		if (choice !== "date") return new Date(now + choice * 86400e3).toISOString();
		if (input.value === currentDay) return current;
		const [year, month, date] = input.value.split("-");
		return input.value && new Date(year, month - 1, Number(date) + 1).toISOString();
	}

	function render() {
		input.hidden = node.querySelector(":checked").value !== "date";
		input.required = !input.hidden;
		const at = value();
		hint.textContent = at ? `Valid until ${exact(at)}, local time.` : at === null ? "Valid until deactivated, rotated or deleted." : "Valid until the end of that day.";
	}
}

// day returns the local date of a time in the format of a date input.
function day(time) {
	const at = new Date(time);
	at.setMinutes(at.getMinutes() - at.getTimezoneOffset());
	return at.toISOString().slice(0, 10);
}
