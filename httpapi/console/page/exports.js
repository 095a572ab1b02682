import { access, apiURL, call, send } from "./api.js";
import { bytes, curl, fill, h, plural, timeNode } from "./dom.js";
import { isRejected, loadFailed } from "./keyforms.js";
import { announce, button, codeBlock, each, emptyState, errorContent, field, form, formDialog, heading, menuButton, recordRow, records, runOnce, searchField, showLoadProblem, showProblem, table } from "./ui.js";

const path = "viewer/exports/";
const limit = 20;

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
	const register = registration((record) => {
		select(record.sourceFileUrl, true);
		all.changed(record);
	});
	const all = registered({
		select,
		register,
		download(source) {
			list.value = source;
			render();
			main.requestSubmit();
		},
	});
	render();
	root.append(heading("Exports", "Exported files of source drawings, one by one or as a zip", button("Register…", { symbol: "plus", onclick: () => register() })),
		h("div.split", main, all.node));
	return all.load;

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
		h("a", { href: new URL(link.url, apiURL(`${path}links`)).href, download: link.fileName, rel: "noreferrer" }).click();
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
// until it is submitted, or has the values of a record. registered is called with the
// new record.
function registration(registered) {
	const input = (props) => h("input", { autocomplete: "off", spellcheck: "false", ...props });
	const inputs = [input({ required: true }), input({ required: true, type: "url", placeholder: "https://" }), input()];
	const [source, exported, fileName] = inputs;
	const fields = [
		field("Source", source, "The URL or id that clients will request."),
		field("Exported file", exported, "An http(s) URL that the server may fetch."),
		field("File name (optional)", fileName, "The name of downloads."),
	];
	return (record) => {
		const values = [record?.sourceFileUrl, record?.exportedUrl, record?.fileName];
		if (record || source.readOnly) inputs.forEach((one, i) => (one.value = values[i] ?? ""));
		source.readOnly = Boolean(record);
		return formDialog({ title: record ? "Change the file" : "Register an export", submit: record ? "Change" : "Register", run }, fields);
	};

	async function run() {
		// The configuration of the server decides which key is required.
		const { record } = await call("POST", `${path}register`, { key: ["client", "admin"], body: { sourceFileUrl: source.value, exportedUrl: exported.value, fileName: fileName.value } });
		registered(record);
		announce(record.createdAt === record.updatedAt ? "Registered." : "Registered. The previous export was replaced.");
		for (const one of inputs) one.value = "";
	}
}

// registered shows the registered exports. select is called with a source and
// whether it is selected, download with the source of one export, register with an
// export to change.
function registered({ select, download, register }) {
	let selected = [];
	let loaded = [];
	let next; // the query of the next page
	let searching = new AbortController();
	let typing;
	const search = searchField("Search", "Search sources", () => {
		clearTimeout(typing);
		typing = setTimeout(load, 250);
	});
	const checks = new Map(); // results by id
	const places = new Map(); // where they are shown
	const broken = h("input", { type: "checkbox", onchange: () => render() });
	const checkAll = button("Check all", { kind: "small", hidden: true, onclick: ({ currentTarget }) => runOnce(currentTarget, checkLoaded) });
	const banner = h("div");
	const [list, rows] = records("Registered exports", ["Source", "Registered", ""]);
	const body = h("div");
	const more = button("Show more", { kind: "small", hidden: true, onclick: ({ currentTarget }) => runOnce(currentTarget, () => page(next)).catch(problem) });
	const node = h("section.stack", h("div.head", h("h2", "Registered"), h("div.actions", h("label.check", broken, "Not available"), checkAll, search)), banner, body, h("div.actions", more));

	const admin = async (method, suffix, signal) => send(method, `admin/exports${suffix}`, { key: "admin", signal });
	const problem = (error) => error.name !== "AbortError" && showProblem(banner, errorContent(error));

	async function load() {
		searching.abort();
		searching = new AbortController();
		const { signal } = searching;
		try {
			await page(`?limit=${limit}&q=${encodeURIComponent(search.value)}`, true);
		} catch (error) {
			if (signal.aborted) return;
			if (loaded.length && !isRejected(error)) return showLoadProblem(banner, error, load);
			loaded = [];
			search.hidden = more.hidden = checkAll.hidden = true;
			if (error.missing) fill(body, h("p.hint", "The admin key lists, checks and removes registered exports. "), button("Enter the admin key", { kind: "small", onclick: access.ask }));
			else loadFailed(body, "admin", error, load);
		}
	}

	// page adds a page of the list, unless another search begins meanwhile.
	async function page(query, first) {
		const response = await admin("GET", query, searching.signal);
		const added = await response.json();
		next = /^<([^>]+)>/.exec(response.headers.get("Link") ?? "")?.[1];
		loaded = first ? added : [...loaded, ...added];
		if (first) fill(rows);
		rows.append(...added.map(row));
		search.hidden = checkAll.hidden = false;
		render();
	}

	function render() {
		more.hidden = !next;
		loaded.forEach(({ id }, i) => (rows.rows[i].hidden = broken.checked && checks.get(id)?.ok !== false));
		const hidden = broken.checked && !loaded.some(({ id }) => checks.get(id)?.ok === false);
		const content = hidden ? emptyState("check", "No broken file", "Of those that have been checked.") : loaded.length > 0 ? list : search.value
			? emptyState("folder", "No source matches", "Upper and lower case differ.")
			: emptyState("folder", "No exports yet", "Register the URL of an exported file for a source.");
		if (!list.isConnected || content !== list) fill(body, content);
	}

	function row(record) {
		const { id, sourceFileUrl, exportedUrl, fileName, updatedAt, registeredBy } = record;
		const box = h("input", { type: "checkbox", "aria-label": `Select ${sourceFileUrl}`, onchange: () => select(sourceFileUrl, box.checked) });
		box.checked = selected.includes(sourceFileUrl);
		const status = h("div", result(id));
		places.set(id, status);
		const line = recordRow(`export-${id}`, [h("label.check", box, h("span", h("span.name", sourceFileUrl), h("span.hint", exportedUrl, fileName && ` as ${fileName}`))), status],
			{ Registered: [timeNode(updatedAt), registeredBy && ` by key ${registeredBy}`] }, [
				button("Check", { kind: "small", "aria-label": `Check ${sourceFileUrl}`, onclick: ({ currentTarget }) => runOnce(currentTarget, () => checkOne(id)).catch(problem) }),
				menuButton(`More for ${sourceFileUrl}`, `export-${id}-menu`, () => [
					["Download", () => download(sourceFileUrl)],
					["Change file…", () => register(record)],
					["Remove…", () => remove(record, line), "danger"],
				]),
			]);
		return line;
	}

	// check opens the file of an export. Its result is kept until the page is left.
	async function check(id) {
		const found = await (await admin("POST", `/${id}/check`)).json();
		checks.set(id, { ...found, at: new Date().toISOString() });
		fill(places.get(id), result(id));
		return found;
	}

	async function checkOne(id) {
		const { ok } = await check(id);
		announce(ok ? "The file is available." : "The file is not available.");
		render();
	}

	async function checkLoaded() {
		const done = await each(banner, "Checking", loaded.map(({ id, sourceFileUrl }) => ({ id, name: sourceFileUrl })), ({ id }) => check(id));
		const bad = done.filter(({ ok }) => !ok).length;
		announce(`${plural(done.length, "file")} checked, ${bad.toLocaleString("en")} not available.`);
		render();
	}

	// result shows the last check of an export.
	function result(id) {
		const found = checks.get(id);
		if (!found) return "";
		const details = found.ok
			? [found.fileName, found.size === null ? "size unknown" : bytes(found.size), found.type, found.resumable ? "resumable" : "not resumable", `opened in ${found.durationMs} ms`].join(", ")
			: found.reason;
		return [h(`span.badge.${found.ok ? "good" : "bad"}`, found.ok ? "Available" : "Not available"), h("span.hint", details, ", ", timeNode(found.at))];
	}

	const remove = (record, line) => formDialog({ title: "Remove this export?", submit: "Remove", danger: true, after: "title", async run() {
		await admin("DELETE", `/${record.id}`).catch((error) => {
			if (error.status !== 404) throw error; // someone else has removed it
		});
		line.remove();
		loaded = loaded.filter((one) => one !== record);
		select(record.sourceFileUrl, false);
		render();
		const restore = async () => {
			const { sourceFileUrl, exportedUrl, fileName } = record;
			await call("POST", `${path}register`, { key: ["client", "admin"], body: { sourceFileUrl, exportedUrl, fileName } });
			await load();
		};
		announce("Removed.", restore);
	} }, h("p", h("b", record.sourceFileUrl), " can no longer be downloaded. The exported file itself stays where it is."));

	return {
		node,
		load,

		changed({ id }) {
			checks.delete(id);
			load();
		},

		// show marks the selected sources.
		show(sources) {
			selected = sources;
			loaded.forEach(({ sourceFileUrl }, i) => (rows.rows[i].querySelector("input").checked = sources.includes(sourceFileUrl)));
		},
	};
}
