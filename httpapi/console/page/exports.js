import { openDownload } from "../../client/client.js";
import { access, apiURL, call, send } from "./api.js";
import { fill, h, timeNode } from "./dom.js";
import { isRejected, loadFailed } from "./keyforms.js";
import { pagedTable } from "./paged.js";
import { byName, bytes, curl, plural } from "./text.js";
import { announce, button, codeBlock, each, emptyState, endLoadProblem, errorContent, field, form, formDialog, heading, menuButton, options, recordRow, runOnce, searchField, showLoadProblem, showProblem, table } from "./ui.js";

const path = "viewer/exports/";
const limit = 1000; // exports of one request

const about = "Exported files of source drawings, one by one or as a zip";

const exportOrders = {
	"Oldest first": (a, b) => a.id - b.id,
	"Newest first": (a, b) => b.id - a.id,
	"Last changed first": (a, b) => (b.updatedAt > a.updatedAt ? 1 : -1),
	"By source": (a, b) => byName(a.sourceFileUrl, b.sourceFileUrl),
};

export function exportsScreen(root) {
	const list = h("textarea", { required: true, rows: "4", spellcheck: "false", autocomplete: "off", placeholder: "https://", oninput: render });
	const urls = h("input", { type: "checkbox", onchange: render });
	const go = h("button.button.main");
	const banner = h("div");
	const result = h("div.stack");
	const command = codeBlock("The same with curl");
	const main = form("card.stack", () => {
		fill(result);
		fill(banner);
		runOnce(go, run).catch((error) => showProblem(banner, [errorContent(error), skipped(error.body?.skipped)]));
	}, h("h2", "Download"),
	field("Sources", list, "Registered sources, one per line. Several files are downloaded as a zip."),
	h("label.check", urls, "Show the URLs of the files instead"),
	h("div.actions", go), banner, result, command.node);
	const register = registration((body) => all.put(body), (record) => {
		select(record.sourceFileUrl, true);
		all.changed(record);
	});
	const all = registered({
		select,
		register,
		download(source) {
			list.value = source;
			render();
			go.removeAttribute("aria-busy"); // with another file
			main.requestSubmit();
		},
	});
	render();
	root.append(heading("Exports", all.summary, button("Register…", { symbol: "plus", onclick: () => register() })),
		h("div.split", main, all.node));
	return all.open;

	function chosen() {
		return list.value.split("\n").map((line) => line.trim()).filter(Boolean);
	}

	function select(source, add) {
		list.value = [...chosen().filter((one) => one !== source), ...(add ? [source] : [])].join("\n");
		render();
	}

	function request() {
		const sources = chosen();
		const many = sources.length > 1;
		return {
			sources,
			many,
			url: `${path}download${many ? "-batch" : ""}${urls.checked ? "?responseType=urls" : ""}`,
			body: many ? { items: sources.map((sourceFileUrl) => ({ sourceFileUrl })) } : { sourceFileUrl: sources[0] ?? "" },
		};
	}

	function render() {
		const { sources, many, url, body } = request();
		go.textContent = urls.checked ? "Show URLs" : many ? `Download ${plural(sources.length, "file")} as a zip` : "Download";
		all.show(sources);
		command.write(curl({ url: apiURL(url), flags: urls.checked ? "" : "-OJ ", key: "client", body }));
	}

	async function run() {
		const { sources, url, body } = request();
		if (urls.checked) return fill(result, urlTable(sources, await call("POST", url, { key: "client", body })));
		const link = await call("POST", `${path}links`, { key: "client", body });
		// The browser downloads by itself, also after this page is left.
		openDownload(new URL(link.url, apiURL(`${path}links`)).href, link.fileName);
		const size = link.size === null ? "size unknown" : bytes(link.size);
		announce(`${link.fileName} is in your browser's downloads.`);
		fill(result, h("p", h("b", link.fileName), `, ${size}, is in your browser's downloads${link.resumable ? "" : ". It cannot be paused"}.`), skipped(link.skipped));
	}
}

// urlTable shows the URL of each source or the reason why it was skipped. Both
// lists of the response are in the order of the request.
function urlTable(sources, { exportedUrl, exportedUrls = [exportedUrl], skipped = [] }) {
	const [found, missing] = [exportedUrls.values(), [...skipped]];
	return table("URLs", ["Source", "Exported file"], sources.map((source) => {
		if (missing[0]?.sourceFileUrl === source) return [source, h("i", missing.shift().reason)];
		const url = found.next().value;
		return [source, h("a", { href: url, target: "_blank" }, url)];
	}));
}

const skipped = (list) => list?.length > 0 && [h("h3", `${plural(list.length, "file")} skipped`), table("Skipped files", ["Source", "Reason"], list.map((one) => [one.sourceFileUrl, one.reason]))];

// registration returns a function that opens a form, which keeps what is entered
// until it is submitted, or has the values of a record. put registers an export,
// registered is called with the new record.
function registration(put, registered) {
	const input = (props) => h("input", { autocomplete: "off", spellcheck: "false", ...props });
	const inputs = [input({ required: true }), input({ required: true, type: "url", placeholder: "https://" }), input()];
	const [source, exported, fileName] = inputs;
	const fields = [
		field("Source", source, "The URL or id that clients will request."),
		field("Exported file", exported, "An http(s) URL that the server may fetch."),
		field("File name (optional)", fileName, "The name of downloads."),
	];
	let tenant; // of the record
	return (record) => {
		tenant = record?.tenant;
		const values = [record?.sourceFileUrl, record?.exportedUrl, record?.fileName];
		if (record || source.readOnly) inputs.forEach((one, i) => (one.value = values[i] ?? ""));
		source.readOnly = Boolean(record);
		return formDialog({ title: record ? "Change the file" : "Register an export", submit: record ? "Change" : "Register", run }, fields);
	};

	async function run() {
		const values = inputs.map(({ value }) => value);
		const { record } = await put({ sourceFileUrl: source.value, exportedUrl: exported.value, fileName: fileName.value, tenant });
		registered(record);
		announce(record.createdAt === record.updatedAt ? "Registered." : "Registered. The previous export was replaced.");
		if (inputs.every(({ value }, i) => value === values[i])) for (const one of inputs) one.value = "";
	}
}

// registered shows the registered exports. select is called with a source and
// whether it is selected, download with the source of one export, register with an
// export to change.
function registered({ select, download, register }) {
	let selected = [];
	let loaded; // in the order of their ids; undefined until loaded
	let found = []; // those that are listed
	let next; // the query of the next page
	let searching = new AbortController();
	let typing;
	const removed = new Set(); // ids
	const checks = new Map(); // results by id, until the page is left
	const changed = () => {
		table.page = 1;
		render();
		remember();
	};
	const turned = () => {
		render();
		remember();
	};
	const search = searchField("Search", "Search sources", () => {
		table.page = 1;
		remember();
		clearTimeout(typing);
		typing = setTimeout(load, 250);
	});
	const broken = h("input", { type: "checkbox", onchange: changed });
	const order = options(Object.keys(exportOrders).map((text) => [text, text]), { "aria-label": "Order", onchange: changed });
	const checkAll = button("Check all", { kind: "small", onclick: ({ currentTarget }) => runOnce(currentTarget, checkListed).catch(problem) });
	const tools = h("div.toolbar", { hidden: true }, search, order, h("label.check", broken, "Not available"), checkAll);
	const summary = h("span", about);
	const banner = h("div");
	const table = pagedTable("Registered exports", ["Source", "Registered", ""], row, turned);
	const body = h("div");
	const more = button("Load more", { kind: "small", hidden: true, onclick: ({ currentTarget }) => runOnce(currentTarget, () => page(next).then(render)).catch(problem) });
	const node = h("section.stack", h("h2", "Registered"), tools, banner, body, h("div.actions", more));

	const admin = async (method, suffix, signal) => send(method, `admin/exports${suffix}`, { key: "admin", signal });
	const problem = (error) => error.name !== "AbortError" && showProblem(banner, errorContent(error));
	const isBroken = ({ id }) => checks.get(id)?.ok === false;

	async function load() {
		searching.abort();
		searching = new AbortController();
		const { signal } = searching;
		try {
			await page(`?limit=${limit}&q=${encodeURIComponent(search.value)}`, true);
			endLoadProblem(banner);
			render();
		} catch (error) {
			if (signal.aborted) return;
			if (loaded && !isRejected(error)) return showLoadProblem(banner, error, load);
			loaded = undefined;
			tools.hidden = more.hidden = true;
			summary.textContent = about;
			if (error.missing) fill(body, h("p.hint", "The admin key lists, checks and removes registered exports. "), button("Enter the admin key", { kind: "small", onclick: access.ask }));
			else loadFailed(body, "admin", error, load);
		}
	}

	// page adds a page of the list, unless another search begins meanwhile.
	async function page(query, first) {
		const response = await admin("GET", query, searching.signal);
		const added = (await response.json()).filter(({ id }) => !removed.has(id)); // while it was read
		if (!first && query !== next) return; // "Check all" or "Load more" has added it meanwhile
		next = /^<([^>]+)>/.exec(response.headers.get("Link") ?? "")?.[1];
		loaded = first ? added : [...loaded, ...added];
	}

	function render() {
		if (!loaded) return;
		found = (broken.checked ? loaded.filter(isBroken) : [...loaded]).sort(exportOrders[order.value]);
		more.hidden = !next;
		tools.hidden = false;
		const part = found.length < loaded.length ? `${found.length.toLocaleString("en")} of ` : "";
		summary.textContent = `${part}${plural(loaded.length, "export")}${next ? ", more on request" : ""}`;
		table.show(found, !next);
		if (found.length === 0) fill(body, nothing());
		else if (!table.node.isConnected) fill(body, table.node);
		mark();
	}

	function nothing() {
		if (loaded.length) return emptyState("check", "No broken file", "Of those that have been checked.");
		return search.value
			? emptyState("folder", "No source matches", "Upper and lower case differ.")
			: emptyState("folder", "No exports yet", "Register the URL of an exported file for a source.");
	}

	// mark shows which sources are selected.
	function mark() {
		for (const box of table.body.querySelectorAll("input")) box.checked = selected.includes(box.value);
	}

	// remember writes to the fragment what is listed, for a reload and for others.
	function remember() {
		const values = { q: search.value, order: order.selectedIndex ? order.value : "", broken: broken.checked ? "1" : "", page: table.page > 1 ? table.page : "" };
		const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
		history.replaceState(null, "", query.size ? `#/exports?${query}` : "#/exports");
	}

	function row(record) {
		const { id, sourceFileUrl, exportedUrl, fileName, updatedAt, registeredBy } = record;
		const box = h("input", { type: "checkbox", value: sourceFileUrl, "aria-label": `Select ${sourceFileUrl}`, onchange: () => select(sourceFileUrl, box.checked) });
		const source = h("span", h("span.name", sourceFileUrl), h("span.hint", exportedUrl, fileName && ` as ${fileName}`));
		const by = registeredBy && [" by key ", h("a", { href: `#/key/${registeredBy}` }, registeredBy)];
		const check = ({ currentTarget }) => runOnce(currentTarget, () => checkOne(record)).catch(problem);
		return recordRow(`export-${id}`, [h("label.check", box, source), h("div.result", result(id))], { Registered: [timeNode(updatedAt), by] }, [
			button("Check", { kind: "small", "aria-label": `Check ${sourceFileUrl}`, onclick: check }),
			menuButton(`More for ${sourceFileUrl}`, `export-${id}-menu`, () => [
				["Check", () => checkOne(record).catch(problem)], // narrow windows have no button
				["Download", () => download(sourceFileUrl)],
				["Change file…", () => register(record)],
				["Remove…", () => remove(record), "danger"],
			]),
		]);
	}

	// check opens the file of an export, and keeps the result.
	async function check(record) {
		const { id } = record;
		const outcome = await (await admin("POST", `/${id}/check`)).json();
		checks.set(id, { ...outcome, at: new Date().toISOString() });
		const shown = table.rowOf(record);
		if (shown) fill(shown.querySelector(".result"), result(id));
		return outcome;
	}

	async function checkOne(record) {
		const { ok } = await check(record);
		announce(ok ? "The file is available." : "The file is not available.");
		render();
	}

	// checkListed checks all exports that match the search, which it loads first.
	async function checkListed() {
		try {
			while (next) await page(next);
		} finally {
			render();
		}
		const done = await each(banner, "Checking", loaded.map((record) => ({ record, name: record.sourceFileUrl })), ({ record }) => check(record));
		const bad = done.filter(({ ok }) => !ok).length;
		announce(`${plural(done.length, "file")} checked, ${bad.toLocaleString("en")} not available.`);
		render();
	}

	// result shows the last check of an export.
	function result(id) {
		const outcome = checks.get(id);
		if (!outcome) return "";
		const details = outcome.ok
			? [outcome.fileName, outcome.size === null ? "size unknown" : bytes(outcome.size), outcome.type, outcome.resumable ? "resumable" : "not resumable", `opened in ${outcome.durationMs} ms`].join(", ")
			: outcome.reason;
		return [h(`span.badge.${outcome.ok ? "good" : "bad"}`, outcome.ok ? "Available" : "Not available"), h("span.hint", details, ", ", timeNode(outcome.at))];
	}

	// put registers an export. If the list was loaded with the login of the application, it
	// sends no client key, which would take precedence.
	async function put(body) {
		const post = (key) => call("POST", `${path}register`, { key, body });
		if (!loaded || access.get("admin")) return post(["client", "admin"]);
		return post("admin").catch((error) => {
			if (error.status !== 401 || error.login) throw error;
			return post("client"); // which the server requires
		});
	}

	const remove = (record) => formDialog({ title: "Remove this export?", submit: "Remove", danger: true, after: "title", async run() {
		await admin("DELETE", `/${record.id}`).catch((error) => {
			if (error.status !== 404) throw error; // someone else has removed it
		});
		removed.add(record.id);
		loaded = loaded?.filter(({ id }) => id !== record.id);
		select(record.sourceFileUrl, false);
		render();
		const restore = async () => {
			const { sourceFileUrl, exportedUrl, fileName, tenant } = record;
			await put({ sourceFileUrl, exportedUrl, fileName, tenant });
			await load();
		};
		announce("Removed.", restore);
	} }, h("p", h("b", record.sourceFileUrl), " can no longer be downloaded. The exported file itself stays where it is."));

	return {
		node,
		summary,
		put,

		open(_, stale, query) {
			search.value = query.get("q") ?? "";
			order.value = query.get("order") in exportOrders ? query.get("order") : order.options[0].value;
			broken.checked = query.has("broken");
			table.page = Number(query.get("page") ?? 1);
			load();
		},

		changed({ id }) {
			checks.delete(id);
			load();
		},

		// show marks the selected sources.
		show(sources) {
			selected = sources;
			mark();
		},
	};
}
