import { access, base, call, failures, readiness, send } from "./api.js";
import { fill, h, timeNode } from "./dom.js";
import { isRejected, loadFailed } from "./keyforms.js";
import { keyCounts } from "./keypage.js";
import { allKeys, filters } from "./keys.js";
import { plural } from "./text.js";
import { button, copyText, endLoadProblem, errorContent, heading, iconButton, showLoadProblem, table } from "./ui.js";
import { usage } from "./usage.js";

const counted = 1000; // records at most

// overviewScreen shows whether the parts of the server respond, and what they store.
export function overviewScreen(root) {
	const cards = h("ul.cards");
	const body = h("div");
	const banner = h("div");
	const problems = h("section");
	let complete = false; // whether the body shows keys
	root.append(heading("Overview", h("code", base.href), iconButton("reload", "Reload", { id: "reload", onclick: load })), banner, cards, body, problems);

	let newest; // identifies the latest load; an earlier one that ends after it shows nothing

	async function load() {
		const current = (newest = {});
		const parts = [
			["API", "#/api", async () => {
				const { info } = await call("GET", "openapi.json");
				return `Version ${info.version}`;
			}],
			["Client keys", "#/keys", (progress) => keys(progress, current)],
			["Symbol folders", "#/symbols", () => count("symbol/folders", "client", "folder")],
			["Exports", "#/exports", () => count("admin/exports", "admin", "export")],
		];
		if (!body.firstChild) fill(body, h("div"));
		fill(cards, parts.map(([name, href, run]) => {
			const [state, number] = [h("span.badge", "…"), h("strong", "–")];
			measure(name, run, state, number);
			return h("li", h("a.card", { href }, h("span.hint", name), number, state));
		}));
		showReadiness(current).catch(() => {}); // the other cards tell that the server does not respond
	}

	// showReadiness shows the readiness check, with the state of the failover fence.
	async function showReadiness(current) {
		const [result, ...details] = await readiness();
		if (!result || current !== newest) return;
		const kinds = { "fence: complete": "good", "fence: partial": "warn" };
		const badges = details.map((text) => h(`span.badge.${kinds[text] ?? "off"}`, text[0].toUpperCase() + text.slice(1)));
		cards.append(h("li.card", h("span.hint", "Readiness"), h("strong", result === "ok" ? "Ready" : "Not ready"), h(`span.badge.${result === "ok" ? "good" : "bad"}`, result), badges));
	}

	// measure shows the result of a check and its duration.
	async function measure(name, run, state, number) {
		const start = performance.now();
		try {
			number.textContent = await run((shown) => (number.textContent = shown));
			state.className = "badge good";
			state.textContent = `${name === "API" ? "Responds" : "Storage responds"}, ${Math.round(performance.now() - start)} ms`;
		} catch (error) {
			state.className = `badge ${error.missing ? "" : "bad"}`;
			state.textContent = error.missing ? `${access.describe(error.missing)[0]} missing` : errorContent(error)[0].textContent;
		}
		showFailures();
	}

	// count returns the number of records in the first page of a list.
	async function count(path, key, one) {
		const response = await send("GET", `${path}?limit=${counted}`, { key });
		const { length } = await response.json();
		return plural(length, one).replace(" ", response.headers.has("Link") ? "+ " : " ");
	}

	// keys counts the client keys, and shows those that need attention.
	async function keys(progress, current) {
		let list = [];
		try {
			for await (list of allKeys()) progress(plural(list.length, "key"));
		} catch (error) {
			if (current !== newest) throw error;
			if (complete && !isRejected(error)) showLoadProblem(banner, error, load);
			else loadFailed(body, "admin", error, load);
			throw error;
		}
		if (current !== newest) return plural(list.length, "key");
		const states = Object.entries(filters).map(([id, [text, matches]]) => [id, text, list.filter(matches).length]);
		const used = list.filter((key) => key.useCount).sort((a, b) => b.useCount - a.useCount).slice(0, 5);
		complete = true;
		endLoadProblem(banner);
		fill(body, h("section.card.uses-of-all", h("h2", "Requests"), usage("admin/usage")), h("div.columns",
			h("section.card", h("h2", "Keys by status"), h("ul.counts", states.map(([id, text, n]) => h("li", h("a", { href: `#/keys/${id}` }, h("span", text), h("b", n.toLocaleString("en"))))))),
			h("section.card", h("h2", "Most used keys"), keyCounts(used))));
		return plural(list.length, "key");
	}

	function showFailures() {
		fill(problems, h("h2", "Recent failures"), h("p.hint", failures.length ? "Of this page. The server’s log has more about each under its request id." : "No request of this page has failed."),
			failures.length > 0 && table("Recent failures", ["Time", "Request", "Error", "Request id"], failures.map(({ at, method, path, error: { status, message, requestId } }) => [
				timeNode(at), h("code", `${method} ${path}`), `${status || "No response"} ${message}`,
				requestId && button(h("code", requestId), { kind: "quiet small", title: "Copy", onclick: () => copyText(requestId) }),
			])));
	}

	return load;
}
