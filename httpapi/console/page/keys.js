import { call } from "./api.js";
import { fill, h } from "./dom.js";
import { expiryField } from "./expiry.js";
import { ago, date, exact, plural } from "./format.js";
import { loadFailed } from "./keyform.js";
import { showRawKey } from "./rawkey.js";
import { overlapField, ownerField, permissions } from "./scopes.js";
import { announce, button, emptyState, errorContent, focusFirst, formDialog, heading, iconButton, menuButton, nameField, runOnce, showProblem, skeleton } from "./ui.js";

const soon = 30; // days before a key expires

export function keysScreen(root, signal) {
	let keys = [];
	const summary = h("span");
	const tools = h("div.actions", { hidden: true },
		iconButton("reload", "Reload", { id: "reload", onclick: () => load("reload") }),
		button("Create key", { kind: "main", symbol: "plus", id: "create-key", onclick: create }));
	const banner = h("div");
	const body = h("div");
	root.append(heading("Client keys", summary, tools), banner, body);

	const send = (method, id, content) => call(method, `admin/api-keys${id}`, { key: "admin", body: content, signal });

	async function load(focus) {
		fill(body, skeleton("rows"));
		fill(banner);
		try {
			keys = await send("GET", "");
			render();
			if (focus) focusFirst(focus);
		} catch (error) {
			if (signal.aborted) return;
			tools.hidden = true;
			summary.textContent = "";
			loadFailed(body, "admin", error, () => load("title"));
		}
	}

	function render() {
		tools.hidden = false;
		summary.textContent = plural(keys.length, "key");
		fill(body, keys.length
			? h("table.records", { role: "table", "aria-labelledby": "title" },
				h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ["Key", "Status", "Expires", "Last used", ""].map((text) =>
					h("th", { role: "columnheader", scope: "col" }, text || h("span.visually-hidden", "Actions"))))),
				h("tbody", { role: "rowgroup" }, keys.map(row)))
			: emptyState("key", "No client keys yet", "A viewer needs a key to read symbols and to download exports."));
	}

	const cell = (name, content) => h("td", { role: "cell", "data-name": name }, h("div", content));

	function row(key) {
		const { id, name, isActive, expiresAt, lastUsedAt, useCount } = key;
		const verb = isActive ? "Deactivate" : "Activate";
		return h("tr", { role: "row" },
			h("th", { role: "rowheader", scope: "row" }, h("span.name", name), h("code", key.maskedKey), key.owner && h("span.hint", key.owner)),
			cell("Status", statuses(key).map(([kind, text]) => [h(`span.badge.${kind}`, text), " "])),
			cell("Expires", expiresAt ? time(expiresAt, date) : h("i", "Never")),
			cell("Last used", lastUsedAt ? [time(lastUsedAt, ago), ` (${plural(useCount, "time")})`] : h("i", "Never")),
			h("td.actions", { role: "cell" },
				button(verb, { kind: "small", id: `key-${id}-active`, "aria-label": `${verb} ${name}`, onclick: (event) => toggle(key, event.currentTarget) }),
				menuButton(`More for ${name}`, `key-${id}-menu`, () => [
					["Rename…", () => rename(key)],
					["Change expiry…", () => changeExpiry(key)],
					["Change owner and scopes…", () => changeScopes(key)],
					["Rotate…", () => rotate(key)],
					["Delete…", () => remove(key), "danger"],
				])));
	}

	function replace(key) {
		keys = keys.map((one) => (one.id === key.id ? key : one));
		render();
	}

	const change = async ({ id }, fields) => replace(await send("PATCH", `/${id}`, fields));

	const toggle = (key, opener) => runOnce(opener, async () => {
		await change(key, { isActive: !key.isActive });
		announce(key.isActive ? `${key.name} is deactivated and now rejected.` : `${key.name} is active again.`);
		focusFirst(opener);
	}).catch((error) => showProblem(banner, errorContent(error)));

	async function create() {
		const [expiry, owner, scopes] = [expiryField(), ownerField(), permissions()];
		const issued = await formDialog({
			title: "Create a client key",
			submit: "Create key",
			run: (name) => send("POST", "", { name, expiresAt: expiry.value(), owner: owner.value(), scopes: scopes.value() }),
		}, nameField("", "For example the viewer or site that uses the key."), expiry.node, owner.node, scopes.node);
		if (!issued) return;
		keys.push(issued.key);
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
		const [owner, scopes] = [ownerField(key.owner), permissions(key.scopes)];
		return formDialog({
			title: `What ${key.name} permits`,
			submit: "Save",
			run: () => change(key, { owner: owner.value(), scopes: scopes.value() }),
		}, owner.node, scopes.node);
	}

	async function rotate(key) {
		const overlap = overlapField();
		const issued = await formDialog({ title: `Rotate ${key.name}?`, submit: "Rotate key", danger: true, run: () => send("POST", `/${key.id}/rotate`, { overlapSeconds: overlap.value() }) },
			h("p", "A new raw key is shown once; every client that uses this key needs it. A raw key from before the current one stops working immediately."), overlap.node,
			h("p", "Name, status, expiry, owner and scopes are kept."), lastUse(key));
		if (!issued) return;
		replace(issued.key);
		showRawKey("Key rotated", issued);
	}

	function remove(key) {
		const at = keys.indexOf(key);
		const next = keys[at + 1] ?? keys[at - 1];
		return formDialog({ title: `Delete ${key.name}?`, submit: "Delete key", danger: true, after: next ? `key-${next.id}-menu` : "create-key", async run() {
			await send("DELETE", `/${key.id}`);
			keys = keys.filter((one) => one !== key);
			render();
			announce(`${key.name} deleted.`);
		} },
		h("p", "The key is rejected permanently. To block it temporarily, deactivate it instead."), lastUse(key));
	}

	return () => load();
}

const lastUse = ({ lastUsedAt, useCount }) =>
	h("p.hint", lastUsedAt ? [`Used ${plural(useCount, "time")}, last `, time(lastUsedAt, ago), "."] : "Never used.");

const time = (at, format) => h("time", { datetime: at, title: `${exact(at)} (${at})` }, format(at));

// daysLeft returns the days until a key expires.
const daysLeft = ({ expiresAt }) => (expiresAt ? (new Date(expiresAt) - Date.now()) / 86400e3 : Infinity);

function statuses(key) {
	const list = key.isActive ? [] : [["off", "Inactive"]];
	if (daysLeft(key) <= 0) list.push(["bad", "Expired"]);
	else if (daysLeft(key) < soon) list.push(["warn", daysLeft(key) < 1 ? "Expires in a day" : `Expires in ${plural(Math.floor(daysLeft(key)), "day")}`]);
	else if (key.isActive) list.push(["good", "Active"]);
	if (key.scopes) list.push(["off", key.scopes.join(", ") || "Permits nothing"]);
	if (key.previousKeyExpiresAt) list.push(["warn", `Previous key until ${exact(key.previousKeyExpiresAt)}`]);
	return list;
}
