import { access } from "./access.js";
import { Failure, send } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { ago, bytes, exact } from "./format.js";
import { loadFailed, openAccess } from "./keyform.js";
import { announce, button, emptyState, errorContent, formDialog, menuButton, runOnce, showProblem } from "./ui.js";

const path = "admin/exports";
const limit = 20;

// registered shows the registered exports. select is called with a source and
// whether it is selected, download with the source of one export.
export function registered(signal, { select, download }) {
	let selected = [];
	let records = [];
	let next; // the query of the next page
	let searching = new AbortController();
	let typing;
	const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search sources", autocomplete: "off", spellcheck: "false", oninput() {
		clearTimeout(typing);
		typing = setTimeout(load, 250);
	} });
	const banner = h("div");
	const rows = h("tbody", { role: "rowgroup" });
	const list = h("table.records", { role: "table", "aria-label": "Registered exports" },
		h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ["Source", "Registered", ""].map((text) =>
			h("th", { role: "columnheader", scope: "col" }, text || h("span.visually-hidden", "Actions"))))),
		rows);
	const body = h("div");
	const more = button("Show more", { kind: "small", hidden: true, onclick: (event) => runOnce(event.currentTarget, () => page(next)).catch(problem) });
	const node = h("section.stack", h("div.head", h("h2", "Registered"), h("div.actions", search)), banner, body, h("div.actions", more));

	const call = async (method, suffix) => (await send(method, path + suffix, { key: "admin", signal })).json();
	const problem = (error) => error.name !== "AbortError" && showProblem(banner, errorContent(error));

	async function load() {
		if (!access.get("admin")) {
			search.hidden = true;
			return fill(body, h("p.hint", "The admin key lists, checks and removes registered exports. "),
				button("Enter the admin key", { kind: "small", onclick: openAccess }));
		}
		searching.abort();
		searching = new AbortController();
		records = [];
		try {
			await page(`?limit=${limit}&q=${encodeURIComponent(search.value)}`);
		} catch (error) {
			if (error.name !== "AbortError") loadFailed(body, "admin", error, load);
		}
	}

	// page adds a page of the list, unless another search begins meanwhile.
	async function page(query) {
		const response = await send("GET", path + query, { key: "admin", signal: AbortSignal.any([signal, searching.signal]) });
		const added = await response.json();
		next = /^<([^>]+)>/.exec(response.headers.get("Link") ?? "")?.[1];
		if (!records.length) fill(rows);
		records.push(...added);
		rows.append(...added.map(row));
		render();
	}

	function render() {
		more.hidden = !next;
		fill(body, records.length > 0 ? list : search.value
			? emptyState("folder", "No source matches", "Upper and lower case differ.")
			: emptyState("folder", "No exports yet", "Register the URL of an exported file for a source."));
	}

	function row(record) {
		const { id, sourceFileUrl, exportedUrl, fileName, updatedAt, registeredBy } = record;
		const box = h("input", { type: "checkbox", "aria-label": `Select ${sourceFileUrl}`, onchange: () => select(sourceFileUrl, box.checked) });
		box.checked = selected.includes(sourceFileUrl);
		const status = h("div");
		const line = h("tr", { role: "row", id: `export-${id}` },
			h("th", { role: "rowheader", scope: "row" }, h("label.check", box, h("span", h("span.name", sourceFileUrl), h("span.hint", exportedUrl, fileName && ` as ${fileName}`))), status),
			h("td", { role: "cell", "data-name": "Registered" }, h("div", h("time", { datetime: updatedAt, title: `${exact(updatedAt)} (${updatedAt})` }, ago(updatedAt)), registeredBy && ` by ${registeredBy}`)),
			h("td.actions", { role: "cell" },
				button("Check", { kind: "small", "aria-label": `Check ${sourceFileUrl}`, onclick: (event) => runOnce(event.currentTarget, () => check(id, status)).catch(problem) }),
				menuButton(`More for ${sourceFileUrl}`, `export-${id}-menu`, () => [
					["Download", () => download(sourceFileUrl)],
					["Remove…", () => remove(record, line), "danger"],
				])));
		return line;
	}

	async function check(id, status) {
		const found = await call("POST", `/${id}/check`);
		const details = found.ok
			? [found.fileName, found.size === null ? "size unknown" : bytes(found.size), found.type, found.resumable ? "resumable" : "not resumable", `opened in ${found.durationMs} ms`].join(", ")
			: found.reason;
		fill(status, h(`span.badge.${found.ok ? "good" : "bad"}`, found.ok ? "Available" : "Not available"), h("span.hint", details));
		announce(found.ok ? "The file is available." : "The file is not available.");
	}

	const remove = (record, line) => formDialog({ title: "Remove this export?", submit: "Remove", danger: true, after: "title", async run() {
		await call("DELETE", `/${record.id}`).catch((error) => {
			if (!(error instanceof Failure) || error.status !== 404) throw error; // someone else has removed it
		});
		line.remove();
		records = records.filter((one) => one !== record);
		select(record.sourceFileUrl, false);
		render();
		announce("Removed.");
	} }, h("p", h("b", record.sourceFileUrl), " can no longer be downloaded. The exported file itself stays where it is."));

	return {
		node,
		load,

		// show marks the selected sources.
		show(sources) {
			selected = sources;
			for (const { id, sourceFileUrl } of records) {
				byId(`export-${id}`).querySelector("input").checked = sources.includes(sourceFileUrl);
			}
		},
	};
}
