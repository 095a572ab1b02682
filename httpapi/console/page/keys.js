import { call, pages, writes } from "./api.js";
import { byId, fill, h, timeNode } from "./dom.js";
import { createKeyActions, daysLeft, isExpiring, statusBadges, valuesOf } from "./keyactions.js";
import { createKey, expiryField, isRejected, loadFailed, ownerField, permissions, showRawKey } from "./keyforms.js";
import { ownerLink } from "./keypage.js";
import { pagedTable } from "./paged.js";
import { byName, date, plural } from "./text.js";
import { announce, button, emptyState, endLoadProblem, errorContent, formDialog, heading, iconButton, inParts, menuButton, options, recordRow, runOnce, searchField, selection, showLoadProblem, showProblem, skeleton } from "./ui.js";
import { sparkline } from "./usage.js";

const unconfirmed = 20; // active keys that are deactivated without a question

const endless = (time) => time ?? "9999"; // sorts null behind all times

const keyOrders = {
	"Newest first": (a, b) => b.id - a.id,
	"Oldest first": (a, b) => a.id - b.id,
	"By name": (a, b) => byName(a.name, b.name),
	"Last used first": (a, b) => ((b.lastUsedAt ?? "") > (a.lastUsedAt ?? "") ? 1 : -1),
	"Most used first": (a, b) => b.useCount - a.useCount,
	"Next to expire": (a, b) => (endless(a.expiresAt) > endless(b.expiresAt) ? 1 : -1),
};

export const filters = {
	active: ["Active", (key) => key.isActive && daysLeft(key) > 0],
	expiring: ["Expiring soon", (key) => key.isActive && isExpiring(key)],
	expired: ["Expired", (key) => daysLeft(key) <= 0],
	inactive: ["Inactive", (key) => !key.isActive],
	unused: ["Never used", (key) => !key.lastUsedAt],
};

// allKeys yields the list of keys, which grows with each page.
export async function* allKeys(signal) {
	let list = [];
	for await (const { records } of pages("admin/api-keys?limit=1000", { key: "admin", signal })) {
		list = [...list, ...records];
		yield list;
	}
}

// textOf returns what the search looks at.
const textOf = ({ id, name, maskedKey, owner, scopes }) => `${id}\n${name}\n${maskedKey}\n${owner ?? ""}\n${scopes ?? ""}`.toLowerCase();

export function keysScreen(root) {
	let keys; // undefined until loaded
	let complete = false; // whether all pages are loaded
	let found = []; // keys that match the filters, in order
	let loading = new AbortController();
	const uses = new Map(); // requests per day, by id of the key; null until known
	const summary = h("span");
	const tools = h("div.actions", { hidden: true },
		iconButton("reload", "Reload", { id: "reload", onclick: () => load() }),
		button("Create key", { kind: "main", symbol: "plus", id: "create-key", onclick: create }));
	const changed = () => {
		table.page = 1;
		render();
		remember();
	};
	const turned = () => {
		render();
		remember();
	};
	const search = searchField("Search, or #id", "Search by name, owner, id or scope", changed);
	const status = options([["", "Any status"], ...Object.entries(filters).map(([id, [text]]) => [id, text])], { "aria-label": "Status", onchange: changed });
	const owners = h("datalist#owners");
	const owner = searchField("Owner", "Owner", changed, { list: "owners" });
	const order = options(Object.keys(keyOrders).map((text) => [text, text]), { "aria-label": "Order", onchange: changed });
	const toolbar = h("div.toolbar", { hidden: true }, search, owner, owners, status, order);
	const banner = h("div");
	const body = h("div");
	const table = pagedTable("Client keys", ["Key", "Status", "Expires", "Last used", ""], row, turned);
	const chosen = selection("key", renderSelection);
	const attempt = (run) => run.catch((error) => showProblem(banner, errorContent(error)));
	chosen.offer([
		button("Select all", { kind: "small", onclick: () => chosen.set(found.map(({ id }) => id)) }),
		button("Activate", { kind: "small", onclick: () => attempt(activateAll(true)) }),
		button("Deactivate", { kind: "small", onclick: () => attempt(activateAll(false)) }),
		button("Change…", { kind: "small", onclick: changeSelected }),
		button("Delete…", { kind: "small", onclick: () => attempt(removeAll()) }),
	]);
	const actions = createKeyActions({ banner, replaced: replace, removed: (key) => dropAll([key]), neighbor });
	root.append(heading("Client keys", summary, tools), toolbar, chosen.node, banner, body);

	const selected = () => keys.filter((key) => chosen.ids.has(key.id));

	async function load() {
		loading.abort();
		loading = new AbortController();
		const { signal } = loading;
		if (!keys) fill(body, skeleton("rows"));
		uses.clear();
		try {
			let latest;
			const { finished } = writes;
			for await (latest of allKeys(signal)) {
				if (latest.length < keys?.length || finished !== writes.finished) continue; // the list is replaced once it is complete
				keys = latest;
				complete = false;
				render();
			}
			if (finished !== writes.finished) return load(); // it may be from before the change
			keys = latest;
			complete = true;
			endLoadProblem(banner);
			render();
			const all = [...new Set(keys.map((key) => key.owner))].filter(Boolean).sort(byName);
			fill(owners, all.slice(0, 1000).map((value) => h("option", { value })));
		} catch (error) {
			if (signal.aborted) return;
			if (keys && !isRejected(error)) return showLoadProblem(banner, error, load);
			keys = undefined;
			chosen.set([]);
			tools.hidden = toolbar.hidden = true;
			summary.textContent = "";
			loadFailed(body, "admin", error, load);
		}
	}

	function render() {
		if (!keys) return; // rejected meanwhile
		const text = search.value.trim().toLowerCase();
		const of = owner.value.trim().toLowerCase();
		const [, matches] = filters[status.value] ?? ["", () => true];
		const ownerOf = (key) => (key.owner ?? "").toLowerCase();
		const isOwner = of && keys.some((key) => ownerOf(key) === of); // rather than a part of one
		const hasOwner = (key) => (isOwner ? ownerOf(key) === of : ownerOf(key).includes(of));
		const hasText = (key) => (text[0] === "#" ? text === `#${key.id}` : textOf(key).includes(text));
		found = keys.filter((key) => matches(key) && hasOwner(key) && hasText(key));
		if (complete) found.sort(keyOrders[order.value]); // pages come with the oldest keys first
		const shown = table.show(found, complete);
		tools.hidden = false;
		toolbar.hidden = !keys.length;
		const part = found.length < keys.length ? `${found.length.toLocaleString("en")} of ` : "";
		summary.textContent = `${part}${plural(keys.length, "key")}`;
		if (!shown.length) fill(body, nothing());
		else if (!table.node.isConnected) fill(body, table.node);
		renderSelection();
		if (complete) showUses(shown);
	}

	const nothing = () => (keys.length
		? emptyState("key", "No key matches", "No key has this name, owner, id, scope or status.")
		: emptyState("key", "No client keys yet", "A viewer needs a key to read symbols and to download exports."));

	function renderSelection() {
		for (const box of table.body.querySelectorAll("input")) box.checked = chosen.ids.has(Number(box.value));
		chosen.count(found);
	}

	// remember writes to the fragment what is shown, for a reload and for others.
	function remember() {
		const page = table.page > 1 ? table.page : "";
		const state = { q: search.value, owner: owner.value, status: status.value, order: order.selectedIndex ? order.value : "", page };
		const query = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
		history.replaceState(null, "", query.size ? `#/keys?${query}` : "#/keys");
	}

	// showUses draws the uses of the shown keys, which one request reads.
	async function showUses(shown) {
		const unknown = shown.map(({ id }) => id).filter((id) => !uses.has(id));
		for (const id of unknown) uses.set(id, null);
		if (unknown.length) {
			const list = await call("GET", `admin/usage?days=30&ids=${unknown}`, { key: "admin" }).catch(() => []);
			for (const { id, days } of list) uses.set(id, days);
		}
		for (const { id, name } of shown) {
			const cell = byId(`uses-${id}`);
			if (cell && !cell.firstChild && uses.get(id)?.some(({ requests }) => requests)) fill(cell, sparkline(uses.get(id), id, name));
		}
	}

	function row(key) {
		const { id, name, isActive, createdAt, expiresAt, lastUsedAt, useCount } = key;
		const verb = isActive ? "Deactivate" : "Activate";
		const toggle = ({ currentTarget }) => runOnce(currentTarget, () => actions.toggle(key));
		const box = h("input", { type: "checkbox", value: id, "aria-label": `Select ${name}`, onclick: (event) => chosen.toggle(id, event.shiftKey, found.map((one) => one.id)) });
		const head = h("div.check", box, h("span",
			h("a.name", { href: `#/key/${id}` }, name),
			h("code", key.maskedKey),
			h("span.hint", `ID ${id}, created `, timeNode(createdAt, date), key.owner && [", owner ", ownerLink(key.owner)])));
		return recordRow(`key-${id}`, head, {
			Status: statusBadges(key),
			Expires: expiresAt ? timeNode(expiresAt, date) : h("i", "Never"),
			"Last used": lastUsedAt ? [timeNode(lastUsedAt), ` (${plural(useCount, "time")})`, h(`div#uses-${id}.uses`)] : h("i", "Never"),
		}, [
			daysLeft(key) <= 0
				? button("Extend…", { kind: "small", "aria-label": `Extend ${name}`, onclick: () => actions.changeExpiry(key) })
				: button(verb, { kind: "small", id: `key-${id}-active`, "aria-label": `${verb} ${name}`, onclick: toggle }),
			menuButton(`More for ${name}`, `key-${id}-menu`, () => actions.entries(key)),
		]);
	}

	function replace(key) {
		keys = keys?.map((one) => (one.id === key.id ? key : one));
		render();
	}

	// many runs a request for each thousand of the keys. Those that it has not changed
	// stay selected.
	async function many(title, list, method, path, fields) {
		const done = await inParts(banner, title, list, (ids) => call(method, `admin/api-keys${path}`, { key: "admin", body: { ids, ...fields } }));
		const all = new Set(done);
		if (done.length < list.length) chosen.set(list.filter((key) => !all.has(key)).map(({ id }) => id));
		return done;
	}

	// changeAll changes fields of keys and offers to undo that.
	async function changeAll(list, fields, title, text) {
		const before = Map.groupBy(list, (key) => JSON.stringify(valuesOf(key, fields)));
		const done = new Set(await many(title, list, "PATCH", "", fields).finally(load));
		if (!done.size) return;
		announce(`${plural(done.size, "key")} ${text}.`, async () => {
			for (const [values, group] of before) await many("Undoing", group.filter((key) => done.has(key)), "PATCH", "", JSON.parse(values));
			await load();
		});
	}

	async function activateAll(isActive) {
		const list = selected().filter((key) => key.isActive !== isActive);
		const title = `Deactivate ${plural(list.length, "key")}`;
		if (!isActive && list.filter(filters.active[1]).length > unconfirmed) {
			const confirmed = await formDialog({ title: `${title}?`, submit: title, danger: true, run() {} }, h("p", "Clients that use them are rejected from then on."), namesOf(list));
			if (!confirmed) return;
		}
		await changeAll(list, { isActive }, isActive ? "Activating" : "Deactivating", isActive ? "activated" : "deactivated");
	}

	// changeSelected changes what the user chooses of the selected keys.
	function changeSelected() {
		const list = selected();
		const parts = [["Expiry", "expiresAt", expiryField()], ["Owner", "owner", ownerField()], ["Scopes", "scopes", permissions()]].map(([text, name, part]) => {
			const box = h("input", { type: "checkbox", onchange: () => (part.node.hidden = part.node.disabled = !box.checked) });
			part.node.hidden = part.node.disabled = true;
			return { box, name, part, node: h("div.stack", h("label.check", box, text), part.node) };
		});
		return formDialog({ title: `Change ${plural(list.length, "key")}`, submit: "Change", run() {
			const fields = Object.fromEntries(parts.filter(({ box }) => box.checked).map(({ name, part }) => [name, part.value()]));
			if (!Object.keys(fields).length) throw new Error("Choose what to change.");
			return changeAll(list, fields, "Changing", "changed");
		} }, parts.map(({ node }) => node), namesOf(list));
	}

	async function removeAll() {
		const list = selected();
		const title = `Delete ${plural(list.length, "key")}`;
		const confirmed = await formDialog({ title: `${title}?`, submit: title, danger: true, run() {}, after: "title" },
			h("p", "The keys are rejected permanently. To block them temporarily, deactivate them instead."),
			namesOf(list));
		if (!confirmed) return;
		const done = await many("Deleting", list, "POST", "/delete");
		dropAll(done);
		announce(`${plural(done.length, "key")} deleted.`);
	}

	function dropAll(list) {
		const gone = new Set(list.map(({ id }) => id));
		keys = keys?.filter(({ id }) => !gone.has(id));
		chosen.set([...chosen.ids].filter((id) => !gone.has(id)));
		render();
	}

	// neighbor returns the id of the element to focus when a key is deleted.
	function neighbor(key) {
		const at = found.indexOf(key);
		const next = found[at + 1] ?? found[at - 1];
		return next ? `key-${next.id}-menu` : "create-key";
	}

	async function create() {
		const issued = await createKey();
		if (!issued) return;
		keys &&= [...keys.filter(({ id }) => id !== issued.key.id), issued.key]; // it may have been read meanwhile
		render();
		showRawKey("Key created", issued);
	}

	// open shows the keys with a status, or with an id, or what remember wrote.
	return ([what], stale, query) => {
		if (what) query.set(...(what in filters ? ["status", what] : ["q", `#${what}`]));
		for (const [control, name] of [[search, "q"], [owner, "owner"], [status, "status"]]) control.value = query.get(name) ?? "";
		order.value = query.get("order") in keyOrders ? query.get("order") : order.options[0].value;
		table.page = Number(query.get("page") ?? 1);
		load();
	};
}

const namesOf = (list) =>
	h("ul", list.slice(0, 8).map(({ name }) => h("li", h("b", name))), list.length > 8 && h("li.hint", `and ${plural(list.length - 8, "more key")}`));
