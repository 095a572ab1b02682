import { fill, h } from "./dom.js";
import { iconButton, records } from "./ui.js";

const pageSize = 50;

// pagedTable is a table of any number of records, of which it shows one page. row creates
// the row of a record; turned is called when the user has turned the page.
export function pagedTable(name, heads, row, turned) {
	const [table, body] = records(name, heads);
	const made = new WeakMap(); // rows by record
	let list = [];
	let start = 0; // index of the first row
	let first = 0; // that is shown, until the list has the row at start
	const range = h("span", { role: "presentation" });
	const turn = (symbol, text, step) => iconButton(symbol, text, { onclick() {
		if (!list[first + step * pageSize]) return;
		start = first + step * pageSize;
		turned();
		scrollTo(0, 0);
	} });
	const [back, next] = [turn("back", "Previous page", -1), turn("next", "Next page", 1)];
	const pager = h("nav.pager", { "aria-label": "Pages" }, range, back, next);

	return {
		node: h("div", table, pager),
		body,
		rowOf: (record) => made.get(record),

		// page is the number of the page, from 1.
		get page() {
			return start / pageSize + 1;
		},
		set page(number) {
			start = Math.max(0, Math.floor(number) - 1) * pageSize || 0;
		},

		// show shows a list, of which more may follow unless it is complete. It returns the
		// records of the page.
		show(records, complete) {
			list = records;
			const last = Math.max(0, Math.ceil(list.length / pageSize) - 1) * pageSize;
			if (complete) start = Math.min(start, last);
			first = Math.min(start, last);
			const shown = list.slice(first, first + pageSize);
			range.textContent = `${first + 1}–${first + shown.length} of ${list.length.toLocaleString("en")}`;
			back.ariaDisabled = !first;
			next.ariaDisabled = first + pageSize >= list.length;
			pager.hidden = list.length <= pageSize;
			const rows = shown.map((one) => {
				if (!made.has(one)) made.set(one, row(one));
				return made.get(one);
			});
			if (rows.length !== body.rows.length || rows.some((node, i) => node !== body.rows[i])) fill(body, rows);
			return shown;
		},
	};
}
