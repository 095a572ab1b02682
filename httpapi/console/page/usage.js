import { call } from "./api.js";
import { fill, h, newId, svg } from "./dom.js";
import { plural, utcDate } from "./text.js";
import { button, errorContent, table } from "./ui.js";

const [barWidth, barHeight] = [4, 60];

// plot draws requests per day, a bar for each. Its description says what one sees.
function plot(days) {
	const counts = days.map(({ requests }) => requests);
	const most = Math.max(1, ...counts);
	const bars = days.map(({ day, requests }, i) => {
		const height = (requests / most) * barHeight || 0.5;
		return svg("rect", { x: i * barWidth, y: barHeight - height, width: barWidth - 1, height }, svg("title", {}, `${utcDate(day)}: ${plural(requests, "request")}`));
	});
	return svg("svg", {
		class: "plot",
		viewBox: `0 0 ${days.length * barWidth} ${barHeight}`,
		preserveAspectRatio: "none",
		role: "img",
		"aria-label": `${plural(total(days), "request")} in ${days.length} days, ${Math.max(...counts).toLocaleString("en")} at most in one`,
	}, ...bars);
}

const total = (days) => days.reduce((sum, { requests }) => sum + requests, 0);

const heads = ["Day", "Requests"];

// usedDays returns the rows of a table with the days that have requests, the latest first.
const usedDays = (days) => days.filter(({ requests }) => requests).reverse().map(({ day, requests }) => [utcDate(day), requests.toLocaleString("en")]);

// sparkline is a small plot that links to the page of a key, with a table for screen
// readers.
export function sparkline(days, id, name) {
	const row = (cells, tag) => h("tr", cells.map((cell) => h(tag, cell)));
	return [
		h("a", { href: `#/key/${id}`, tabindex: "-1" }, plot(days)),
		h("div.visually-hidden", h("table", h("caption", `Requests of ${name} per day`), h("thead", row(heads, "th")), h("tbody", usedDays(days).map((cells) => row(cells, "td"))))),
	];
}

// usage shows the requests of 30 days or of a year, which the path returns.
export function usage(path) {
	const group = newId();
	const content = h("div.stack.days");
	let newest; // number of days that the user has chosen last
	const choice = (days, text) => h("label",
		h("input", { type: "radio", name: group, checked: days === 30, onchange: () => show(days) }),
		h("span.button.small", text));
	show(30);
	return h("div.stack", h("fieldset.actions", h("legend.visually-hidden", "Period"), choice(30, "30 days"), choice(365, "A year")), content);

	async function show(days) {
		newest = days;
		try {
			const list = await call("GET", `${path}${path.includes("?") ? "&" : "?"}days=${days}`, { key: "admin" });
			if (newest !== days) return;
			const used = usedDays(list);
			fill(content,
				h("p", h("b", plural(total(list), "accepted request")), ` since ${utcDate(list[0].day)}. Days are those of UTC.`),
				plot(list),
				used.length > 0 && h("details", h("summary", "As a table"), table("Requests per day", heads, used)));
		} catch (error) {
			if (newest === days) fill(content, h("div.problem", errorContent(error), button("Retry", { kind: "small", onclick: () => show(days) })));
		}
	}
}
