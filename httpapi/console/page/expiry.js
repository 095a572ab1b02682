import { h, unique } from "./dom.js";
import { exact } from "./format.js";

const choices = [["", "Never"], [30, "30 days"], [90, "90 days"], [365, "1 year"], ["date", "Date"]];

// expiryField asks when a key expires. present is when it does so far.
export function expiryField(present) {
	const group = unique();
	const now = Date.now();
	const presentDay = present && day(new Date(present) - 1);
	const input = h("input", { type: "date", "aria-label": "Last day", value: presentDay ?? "", oninput: paint });
	const hint = h("p.hint");
	const node = h("fieldset", h("legend", "Expires"), h("div.actions", choices.map(([value, text]) =>
		h("label", h("input", { type: "radio", name: group, value, checked: value === (present ? "date" : ""), onchange: paint }), h("span.button.small", text)))), input, hint);
	paint();
	return { node, value };

	// value is the time to send, or null. A day counts to its end where the
	// reader is.
	function value() {
		const choice = node.querySelector(":checked").value;
		if (!choice) return null;
		if (choice !== "date") return new Date(now + choice * 86400e3).toISOString();
		if (input.value === presentDay) return present;
		const [year, month, date] = input.value.split("-");
		return input.value && new Date(year, month - 1, Number(date) + 1).toISOString();
	}

	function paint() {
		input.hidden = node.querySelector(":checked").value !== "date";
		input.required = !input.hidden;
		const at = value();
		hint.textContent = at ? `It ${new Date(at) > now ? "works" : "worked"} until ${exact(at)}, your time.` : at === null ? "It works until it is deactivated, rotated or deleted." : "It works to the end of that day.";
	}
}

// day is the date of a time where the reader is, as a date field has it.
function day(time) {
	const at = new Date(time);
	at.setMinutes(at.getMinutes() - at.getTimezoneOffset());
	return at.toISOString().slice(0, 10);
}
