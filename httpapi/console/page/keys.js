import { CanvasbackError } from "../../client/client.js";
import { call, pages, send } from "./api.js";
import { byId, byName, date, exact, fill, h, plural, timeNode } from "./dom.js";
import { createKey, expiryField, isRejected, loadFailed, overlapField, ownerField, permissions, showRawKey } from "./keyforms.js";
import { announce, button, emptyState, errorContent, formDialog, heading, iconButton, inParts, menuButton, nameField, options, recordRow, records, runOnce, searchField, selection, showLoadProblem, showProblem, skeleton } from "./ui.js";
import { openUsage, plot } from "./usage.js";

const soon = 30; // days before a key expires
const pageSize = 50;
const unconfirmed = 20; // active keys that are deactivated without a question

const last = (time) => time ?? "9999"; // sorts null behind all times

const orders = {
	"Newest first": (a, b) => b.id - a.id,
	"Oldest first": (a, b) => a.id - b.id,
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
	let complete = false; // whether all pages are loaded
	let found = []; // keys that match the filters, in order
	let start = 0; // index of the first row
	let loading = new AbortController();
	const rows = new WeakMap(); // by record
	const uses = new Map(); // requests per day, by id of the key; null until known
	const summary = h("span");
	const tools = h("div.actions", { hidden: true },
		iconButton("reload", "Reload", { id: "reload", onclick: () => load() }),
		button("Create key", { kind: "main", symbol: "plus", id: "create-key", onclick: create }));
	const changed = () => {
		start = 0;
		render();
		remember();
	};
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
			remember();
			scrollTo(0, 0);
		} }));
	const pager = h("nav.pager", { "aria-label": "Pages" }, range, back, next);
	const chosen = selection("key", renderSelection,
		button("Select all", { kind: "small", onclick: () => chosen.set(found.map(({ id }) => id)) }),
		button("Activate", { kind: "small", onclick: () => activateAll(true) }),
		button("Deactivate", { kind: "small", onclick: () => activateAll(false) }),
		button("Change…", { kind: "small", onclick: changeSelected }),
		button("Delete…", { kind: "small", onclick: removeAll }));
	root.append(heading("Client keys", summary, tools), toolbar, chosen.node, banner, body);

	const admin = (method, path, body, headers) => call(method, `admin/api-keys${path}`, { key: "admin", body, headers });
	const selected = () => keys.filter((key) => chosen.ids.has(key.id));
	const problem = (error) => showProblem(banner, errorContent(error));

	async function load() {
		loading.abort();
		loading = new AbortController();
		const { signal } = loading;
		if (!keys) fill(body, skeleton("rows"));
		complete = false;
		uses.clear();
		try {
			let latest;
			for await (latest of allKeys(signal)) {
				if (latest.length < keys?.length) continue; // the list is replaced once it is complete
				keys = latest;
				render();
			}
			keys = latest;
			complete = true;
			render();
			fill(owners, [...new Set(keys.map((key) => key.owner))].filter(Boolean).sort(byName).slice(0, 1000).map((value) => h("option", { value })));
		} catch (error) {
			if (signal.aborted) return;
			if (keys && !isRejected(error)) return showLoadProblem(banner, error, load);
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
		if (complete || order.selectedIndex) found.sort(orders[order.value]); // pages come with the oldest keys first
		const lastPage = Math.max(0, Math.ceil(found.length / pageSize) - 1) * pageSize;
		if (complete) start = Math.min(start, lastPage);
		const first = Math.min(start, lastPage);
		const shown = found.slice(first, first + pageSize);
		tools.hidden = false;
		toolbar.hidden = !keys.length;
		summary.textContent = found.length < keys.length ? `${found.length.toLocaleString("en")} of ${plural(keys.length, "key")}` : plural(keys.length, "key");
		range.textContent = `${first + 1}–${first + shown.length} of ${found.length.toLocaleString("en")}`;
		[back.ariaDisabled, next.ariaDisabled] = [!start, start + pageSize >= found.length];
		const nodes = shown.map((key) => rows.get(key) ?? row(key));
		if (nodes.length !== tbody.rows.length || nodes.some((node, i) => node !== tbody.rows[i])) fill(tbody, nodes);
		const content = shown.length ? table
			: keys.length ? emptyState("key", "No key matches", "No key has this name, owner, id, scope or status.")
				: emptyState("key", "No client keys yet", "A viewer needs a key to read symbols and to download exports.");
		if (!content.isConnected || content !== table) fill(body, content, found.length > pageSize && pager);
		else if (pager.isConnected !== found.length > pageSize) fill(body, table, found.length > pageSize && pager);
		renderSelection();
		if (complete) showUses(shown);
	}

	function renderSelection() {
		for (const box of tbody.querySelectorAll("input")) box.checked = chosen.ids.has(Number(box.value));
		chosen.count(found);
	}

	// remember writes to the fragment what is shown, for a reload and for others.
	function remember() {
		const page = start ? start / pageSize + 1 : "";
		const state = { q: search.value, owner: owner.value, status: status.value, order: order.selectedIndex ? order.value : "", page };
		const query = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
		history.replaceState(null, "", query.size ? `#/keys/?${query}` : "#/keys");
	}

	// showUses draws the uses of the shown keys, which one request reads.
	async function showUses(shown) {
		const unknown = shown.map(({ id }) => id).filter((id) => !uses.has(id));
		for (const id of unknown) uses.set(id, null);
		if (unknown.length) {
			const list = await call("GET", `admin/usage?days=30&ids=${unknown}`, { key: "admin" }).catch(() => []);
			for (const { id, days } of list) uses.set(id, days);
		}
		for (const { id } of shown) {
			const place = byId(`uses-${id}`);
			if (place && !place.firstChild && uses.get(id)?.some(({ requests }) => requests)) fill(place, plot(uses.get(id)));
		}
	}

	function row(key) {
		const { id, name, isActive, createdAt, expiresAt, lastUsedAt, useCount } = key;
		const expired = daysLeft(key) <= 0;
		const verb = isActive ? "Deactivate" : "Activate";
		const node = recordRow(`key-${id}`, h("label.check", h("input", { type: "checkbox", value: id, "aria-label": `Select ${name}`, onclick: (event) => chosen.toggle(id, event.shiftKey, found.map((one) => one.id)) }),
			h("span", h("span.name", name), h("code", key.maskedKey), h("span.hint", `ID ${id}, created `, timeNode(createdAt, date), key.owner && [", owner ", h("b", key.owner)]))), {
			Status: statuses(key).map(([kind, text]) => [h(`span.badge.${kind}`, text), " "]),
			Expires: expiresAt ? timeNode(expiresAt, date) : h("i", "Never"),
			"Last used": lastUsedAt ? [timeNode(lastUsedAt), ` (${plural(useCount, "time")})`, h(`div#uses-${id}.uses`)] : h("i", "Never"),
		}, [
			expired ? button("Extend…", { kind: "small", "aria-label": `Extend ${name}`, onclick: () => changeExpiry(key) })
				: button(verb, { kind: "small", id: `key-${id}-active`, "aria-label": `${verb} ${name}`, onclick: ({ currentTarget }) => runOnce(currentTarget, () => change(key, { isActive: !isActive })).catch(problem) }),
			menuButton(`More for ${name}`, `key-${id}-menu`, () => [
				["Rename…", () => rename(key)],
				["Change expiry…", () => changeExpiry(key)],
				["Change owner and scopes…", () => changeScopes(key)],
				["Rotate…", () => rotate(key)],
				["Usage…", () => openUsage(`Usage of ${name}`, `admin/api-keys/${id}/usage`)],
				...(key.owner ? [["Usage of the owner…", () => openUsage(`Usage of ${key.owner}`, `admin/usage?owner=${encodeURIComponent(key.owner)}`)]] : []),
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

	// update changes fields of a key if they are still as shown. The second attempt of
	// the user is meant.
	async function update(key, fields) {
		const response = await send("GET", `admin/api-keys/${key.id}`, { key: "admin" });
		const current = await response.json();
		const differs = Object.keys(fields).find((name) => JSON.stringify(current[name]) !== JSON.stringify(key[name]));
		if (differs) {
			Object.assign(key, current);
			replace({ ...current });
			const now = { isActive: current.isActive ? "active" : "inactive", name: `named "${current.name}"`, expiresAt: current.expiresAt ? `valid until ${exact(current.expiresAt)}` : "without expiry" };
			throw new CanvasbackError(`The key is now ${now[differs] ?? `of ${current.owner ?? "no owner"}, with ${current.scopes?.join(", ") ?? "all scopes"}`}. Submit again to change that, or cancel to keep it`, { status: 412 });
		}
		return replace(await admin("PATCH", `/${key.id}`, fields, { "If-Match": response.headers.get("ETag") }));
	}

	// change changes fields of a key and offers to undo that.
	async function change(key, fields) {
		const previous = valuesOf(key, fields);
		const changed = await update(key, fields);
		const { name, isActive } = changed;
		announce(!("isActive" in fields) ? `${name} changed.`
			: !isActive ? `${name} is deactivated and now rejected.`
				: daysLeft(changed) <= 0 ? `${name} is activated, but it has expired and is still rejected.` : `${name} is active again.`,
		() => update(changed, previous));
	}

	// many runs a request for each thousand of the keys. Those that it has not changed
	// stay selected.
	async function many(title, list, method, path, fields) {
		const done = await inParts(banner, title, list, (ids) => admin(method, path, { ids, ...fields }));
		const changed = new Set(done);
		if (done.length < list.length) chosen.set(list.filter((key) => !changed.has(key)).map(({ id }) => id));
		return done;
	}

	// changeAll changes fields of keys and offers to undo that.
	async function changeAll(list, fields, title, text) {
		const before = Map.groupBy(list, (key) => JSON.stringify(valuesOf(key, fields)));
		const done = new Set(await many(title, list, "PATCH", "", fields));
		await load();
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
		const [expiry, owned, scopes] = [expiryField(), ownerField(), permissions()];
		const parts = [["Expiry", "expiresAt", expiry], ["Owner", "owner", owned], ["Scopes", "scopes", scopes]].map(([text, name, part]) => {
			const box = h("input", { type: "checkbox", onchange: () => (part.node.hidden = !box.checked) });
			part.node.hidden = true;
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
		keys = keys.filter(({ id }) => !gone.has(id));
		chosen.set([...chosen.ids].filter((id) => !gone.has(id)));
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
		const issued = await formDialog({ title: `Rotate ${key.name}?`, submit: "Rotate key", danger: true, run: () => admin("POST", `/${key.id}/rotate`, { overlapSeconds: overlap.value() }) },
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
			await admin("DELETE", `/${key.id}`);
			dropAll([key]);
			announce(`${key.name} deleted.`);
		} },
		h("p", "The key is rejected permanently. To block it temporarily, deactivate it instead."), lastUse(key));
	}

	// open shows the key with an id, those with a status, or what remember wrote.
	return ([what]) => {
		if (what) {
			const state = new URLSearchParams(what[0] === "?" ? what : what in filters ? { status: what } : { q: `#${what}` });
			for (const [control, name] of [[search, "q"], [owner, "owner"], [status, "status"]]) control.value = state.get(name) ?? "";
			order.value = state.get("order") in orders ? state.get("order") : order.options[0].value;
			start = Math.max(0, Number(state.get("page") ?? 1) - 1) * pageSize || 0;
		}
		load();
	};
}

// valuesOf returns the values that a key has in the given fields.
const valuesOf = (key, fields) => Object.fromEntries(Object.keys(fields).map((name) => [name, key[name]]));

const namesOf = (list) =>
	h("ul", list.slice(0, 8).map(({ name }) => h("li", h("b", name))), list.length > 8 && h("li.hint", `and ${plural(list.length - 8, "more key")}`));

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
