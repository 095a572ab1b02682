import { call, pages } from "./api.js";
import { byName, date, exact, fill, h, plural, timeNode } from "./dom.js";
import { createKey, expiryField, loadFailed, overlapField, ownerField, permissions, showRawKey } from "./keyforms.js";
import { announce, button, each, emptyState, errorContent, formDialog, heading, iconButton, menuButton, nameField, options, recordRow, records, runOnce, searchField, selection, showProblem, skeleton } from "./ui.js";

const soon = 30; // days before a key expires
const pageSize = 50;

const last = (time) => time ?? "9999"; // sorts null behind all times

const orders = {
	"Oldest first": (a, b) => a.id - b.id,
	"Newest first": (a, b) => b.id - a.id,
	"By name": (a, b) => byName(a.name, b.name),
	"Last used first": (a, b) => ((b.lastUsedAt ?? "") > (a.lastUsedAt ?? "") ? 1 : -1),
	"Most used first": (a, b) => b.useCount - a.useCount,
	"Next to expire": (a, b) => (last(a.expiresAt) > last(b.expiresAt) ? 1 : -1),
};

// daysLeft returns the days until a key expires.
const daysLeft = ({ expiresAt }) => (expiresAt ? (new Date(expiresAt) - Date.now()) / 86400e3 : Infinity);

export const filters = {
	active: ["Active", (key) => key.isActive && daysLeft(key) > 0],
	expiring: ["Expiring soon", (key) => key.isActive && daysLeft(key) > 0 && daysLeft(key) < soon],
	expired: ["Expired", (key) => daysLeft(key) <= 0],
	inactive: ["Inactive", (key) => !key.isActive],
	unused: ["Never used", (key) => !key.lastUsedAt],
};

// allKeys yields the list of keys, which grows with each page.
export async function* allKeys(signal) {
	let list = [];
	for await (const { records: page } of pages("admin/api-keys?limit=1000", { key: "admin", signal })) yield (list = [...list, ...page]);
}

export function keysScreen(root) {
	let keys; // undefined until loaded
	let found = []; // keys that match the filters, in order
	let start = 0; // index of the first row
	let loading = new AbortController();
	const rows = new WeakMap(); // by record
	const summary = h("span");
	const tools = h("div.actions", { hidden: true },
		iconButton("reload", "Reload", { id: "reload", onclick: () => load() }),
		button("Create key", { kind: "main", symbol: "plus", id: "create-key", onclick: create }));
	const changed = () => (start = 0, render());
	const search = searchField("Search, or #id", "Search by name, owner, id or scope", changed);
	const status = options([["", "Any status"], ...Object.entries(filters).map(([id, [text]]) => [id, text])], { "aria-label": "Status", onchange: changed });
	const owners = h("datalist#owners");
	const owner = searchField("Owner", "Owner", changed, { list: "owners" });
	const order = options(Object.keys(orders).map((text) => [text, text]), { "aria-label": "Order", onchange: changed });
	const toolbar = h("div.toolbar", { hidden: true }, search, owner, owners, status, order);
	const banner = h("div");
	const body = h("div");
	const [table, tbody] = records("Client keys", ["Key", "Status", "Expires", "Last used", ""]);
	const range = h("span", { role: "presentation" });
	const [back, next] = [["back", "Previous page", -1], ["next", "Next page", 1]].map(([symbol, name, step]) =>
		iconButton(symbol, name, { onclick() {
			if (!found[start + step * pageSize]) return;
			start += step * pageSize;
			render();
			scrollTo(0, 0);
		} }));
	const pager = h("nav.pager", { "aria-label": "Pages" }, range, back, next);
	const chosen = selection("key", renderSelection,
		button("Select all", { kind: "small", onclick: () => chosen.set(found.map(({ id }) => id)) }),
		button("Activate", { kind: "small", onclick: () => changeAll(true) }),
		button("Deactivate", { kind: "small", onclick: () => changeAll(false) }),
		button("Delete…", { kind: "small", onclick: removeAll }));
	root.append(heading("Client keys", summary, tools), toolbar, chosen.node, banner, body);

	const send = (method, id, content) => call(method, `admin/api-keys/${id}`, { key: "admin", body: content });
	const problem = (error) => showProblem(banner, errorContent(error));

	async function load() {
		loading.abort();
		loading = new AbortController();
		const { signal } = loading;
		if (!keys) fill(body, skeleton("rows"));
		try {
			let latest;
			for await (latest of allKeys(signal)) {
				if (latest.length < keys?.length) continue; // the list is replaced once it is complete
				keys = latest;
				render();
			}
			keys = latest;
			render();
			fill(owners, [...new Set(keys.map((key) => key.owner))].filter(Boolean).sort(byName).slice(0, 1000).map((value) => h("option", { value })));
		} catch (error) {
			if (signal.aborted) return;
			keys = undefined;
			tools.hidden = toolbar.hidden = true;
			summary.textContent = "";
			loadFailed(body, "admin", error, load);
		}
	}

	function render() {
		const text = search.value.trim().toLowerCase();
		const of = owner.value.trim().toLowerCase();
		const matches = filters[status.value]?.[1] ?? (() => true);
		found = keys.filter((key) => matches(key) && (key.owner ?? "").toLowerCase().includes(of) &&
			(text[0] === "#" ? text === `#${key.id}` : `${key.id}\n${key.name}\n${key.maskedKey}\n${key.owner ?? ""}\n${key.scopes ?? ""}`.toLowerCase().includes(text)));
		found.sort(orders[order.value]);
		if (start >= found.length) start = Math.max(0, Math.ceil(found.length / pageSize) - 1) * pageSize;
		const shown = found.slice(start, start + pageSize);
		tools.hidden = false;
		toolbar.hidden = !keys.length;
		summary.textContent = found.length < keys.length ? `${found.length.toLocaleString("en")} of ${plural(keys.length, "key")}` : plural(keys.length, "key");
		range.textContent = `${start + 1}–${start + shown.length} of ${found.length.toLocaleString("en")}`;
		[back.ariaDisabled, next.ariaDisabled] = [!start, start + pageSize >= found.length];
		const nodes = shown.map((key) => rows.get(key) ?? row(key));
		if (nodes.length !== tbody.rows.length || nodes.some((node, i) => node !== tbody.rows[i])) fill(tbody, nodes);
		const content = shown.length ? table
			: keys.length ? emptyState("key", "No key matches", "No key has this name, owner, id, scope or status.")
				: emptyState("key", "No client keys yet", "A viewer needs a key to read symbols and to download exports.");
		if (!content.isConnected || content !== table) fill(body, content, found.length > pageSize && pager);
		else if (pager.isConnected !== found.length > pageSize) fill(body, table, found.length > pageSize && pager);
		renderSelection();
	}

	function renderSelection() {
		for (const box of tbody.querySelectorAll("input")) box.checked = chosen.ids.has(Number(box.value));
	}

	function row(key) {
		const { id, name, isActive, createdAt, expiresAt, lastUsedAt, useCount } = key;
		const expired = daysLeft(key) <= 0;
		const verb = isActive ? "Deactivate" : "Activate";
		const node = recordRow(`key-${id}`, h("label.check", h("input", { type: "checkbox", value: id, "aria-label": `Select ${name}`, onclick: (event) => chosen.toggle(id, event.shiftKey, found.map((one) => one.id)) }),
			h("span", h("span.name", name), h("code", key.maskedKey), h("span.hint", `ID ${id}, created `, timeNode(createdAt, date), key.owner && [", owner ", h("b", key.owner)]))), {
			Status: statuses(key).map(([kind, text]) => [h(`span.badge.${kind}`, text), " "]),
			Expires: expiresAt ? timeNode(expiresAt, date) : h("i", "Never"),
			"Last used": lastUsedAt ? [timeNode(lastUsedAt), ` (${plural(useCount, "time")})`] : h("i", "Never"),
		}, [
			expired ? button("Extend…", { kind: "small", "aria-label": `Extend ${name}`, onclick: () => changeExpiry(key) })
				: button(verb, { kind: "small", id: `key-${id}-active`, "aria-label": `${verb} ${name}`, onclick: ({ currentTarget }) => runOnce(currentTarget, () => change(key, { isActive: !isActive })).catch(problem) }),
			menuButton(`More for ${name}`, `key-${id}-menu`, () => [
				["Rename…", () => rename(key)],
				["Change expiry…", () => changeExpiry(key)],
				["Change owner and scopes…", () => changeScopes(key)],
				["Rotate…", () => rotate(key)],
				[verb, () => change(key, { isActive: !isActive }).catch(problem)],
				["Delete…", () => remove(key), "danger"],
			]),
		]);
		rows.set(key, node);
		return node;
	}

	function replace(key) {
		keys = keys.map((one) => (one.id === key.id ? key : one));
		render();
		return key;
	}

	// change changes fields of a key and offers to undo that.
	async function change(key, fields) {
		const previous = Object.fromEntries(Object.keys(fields).map((name) => [name, key[name]]));
		const changed = replace(await send("PATCH", key.id, fields));
		const { name, isActive } = changed;
		announce(!("isActive" in fields) ? `${name} changed.`
			: !isActive ? `${name} is deactivated and now rejected.`
				: daysLeft(changed) <= 0 ? `${name} is activated, but it has expired and is still rejected.` : `${name} is active again.`,
		async () => replace(await send("PATCH", key.id, previous)));
	}

	async function changeAll(isActive) {
		const list = keys.filter((key) => chosen.ids.has(key.id) && key.isActive !== isActive);
		const apply = (all, value) => each(banner, value ? "Activating" : "Deactivating", all, async (key) => replace(await send("PATCH", key.id, { isActive: value })));
		const done = await apply(list, isActive);
		announce(`${plural(done.length, "key")} ${isActive ? "activated" : "deactivated"}.`, done.length > 0 && (() => apply(done, !isActive)));
	}

	async function removeAll() {
		const list = keys.filter((key) => chosen.ids.has(key.id));
		const title = `Delete ${plural(list.length, "key")}`;
		const confirmed = await formDialog({ title: `${title}?`, submit: title, danger: true, run() {}, after: "title" },
			h("p", "The keys are rejected permanently. To block them temporarily, deactivate them instead."),
			h("ul", list.slice(0, 8).map(({ name }) => h("li", h("b", name))), list.length > 8 && h("li.hint", `and ${plural(list.length - 8, "more key")}`)));
		if (!confirmed) return;
		const done = await each(banner, "Deleting", list, async (key) => {
			await send("DELETE", key.id);
			return key;
		});
		dropAll(done);
		announce(`${plural(done.length, "key")} deleted.`);
	}

	function dropAll(list) {
		const gone = new Set(list);
		keys = keys.filter((one) => !gone.has(one));
		chosen.set([...chosen.ids].filter((id) => !list.some((one) => one.id === id)));
		render();
	}

	async function create() {
		const issued = await createKey();
		if (!issued) return;
		keys = [...keys, issued.key];
		render();
		showRawKey("Key created", issued);
	}

	const rename = (key) => formDialog({
		title: `Rename ${key.name}`,
		submit: "Rename",
		run: (name) => change(key, { name }),
	}, nameField(key.name));

	function changeExpiry(key) {
		const expiry = expiryField(key.expiresAt);
		return formDialog({ title: `When ${key.name} expires`, submit: "Save", run: () => change(key, { expiresAt: expiry.value() }) }, expiry.node);
	}

	function changeScopes(key) {
		const [owned, scopes] = [ownerField(key.owner), permissions(key.scopes)];
		return formDialog({
			title: `What ${key.name} permits`,
			submit: "Save",
			run: () => change(key, { owner: owned.value(), scopes: scopes.value() }),
		}, owned.node, scopes.node);
	}

	async function rotate(key) {
		const overlap = overlapField();
		const issued = await formDialog({ title: `Rotate ${key.name}?`, submit: "Rotate key", danger: true, run: () => send("POST", `${key.id}/rotate`, { overlapSeconds: overlap.value() }) },
			h("p", "A new raw key is shown once; every client that uses this key needs it. A raw key from before the current one stops working immediately."), overlap.node,
			h("p", "Name, status, expiry, owner and scopes are kept."), lastUse(key));
		if (!issued) return;
		replace(issued.key);
		showRawKey("Key rotated", issued);
	}

	function remove(key) {
		const at = found.indexOf(key);
		const neighbor = found[at + 1] ?? found[at - 1];
		return formDialog({ title: `Delete ${key.name}?`, submit: "Delete key", danger: true, after: neighbor ? `key-${neighbor.id}-menu` : "create-key", async run() {
			await send("DELETE", key.id);
			dropAll([key]);
			announce(`${key.name} deleted.`);
		} },
		h("p", "The key is rejected permanently. To block it temporarily, deactivate it instead."), lastUse(key));
	}

	// open shows the key with an id, or those with a status.
	return ([what]) => {
		if (what) {
			status.value = what in filters ? what : "";
			search.value = what in filters ? "" : `#${what}`;
			start = 0;
		}
		load();
	};
}

const lastUse = ({ lastUsedAt, useCount }) =>
	h("p.hint", lastUsedAt ? [`Used ${plural(useCount, "time")}, last `, timeNode(lastUsedAt), "."] : "Never used.");

function statuses(key) {
	const list = key.isActive ? [] : [["off", "Inactive"]];
	if (daysLeft(key) <= 0) list.push(["bad", "Expired"]);
	else if (daysLeft(key) < soon) list.push(["warn", daysLeft(key) < 1 ? "Expires in a day" : `Expires in ${plural(Math.floor(daysLeft(key)), "day")}`]);
	else if (key.isActive) list.push(["good", "Active"]);
	if (key.scopes) list.push(["off", key.scopes.join(", ") || "Permits nothing"]);
	if (key.previousKeyExpiresAt) list.push(["warn", `Previous key until ${exact(key.previousKeyExpiresAt)}`]);
	return list;
}
