import { call } from "./api.js";
import { fill, h } from "./dom.js";
import { expiryField } from "./expiry.js";
import { ago, date, exact, plural } from "./format.js";
import { gate } from "./keyform.js";
import { showRawKey } from "./rawkey.js";
import { ask, busy, button, explained, head, iconButton, menuButton, nameField, nothing, refocus, say, skeleton, trouble } from "./ui.js";

const soon = 30; // days before a key expires

export function keysScreen(root, signal) {
	let keys = [];
	const summary = h("span");
	const tools = h("div.actions", { hidden: true },
		iconButton("reload", "Reload", { id: "reload", onclick: () => load("reload") }),
		button("Create key", { kind: "main", symbol: "plus", id: "create-key", onclick: create }));
	const strip = h("div");
	const body = h("div");
	root.append(head("Client keys", summary, tools), strip, body);

	const send = (method, id, content) => call(method, `admin/api-keys${id}`, { key: "admin", body: content, signal });

	async function load(focus) {
		fill(body, skeleton("rows"));
		fill(strip);
		try {
			keys = await send("GET", "");
			paint();
			if (focus) refocus(focus);
		} catch (error) {
			if (signal.aborted) return;
			tools.hidden = true;
			summary.textContent = "";
			gate(body, "admin", error, () => load("title"));
		}
	}

	function paint() {
		tools.hidden = false;
		summary.textContent = plural(keys.length, "key");
		fill(body, keys.length
			? h("table.records", { role: "table", "aria-labelledby": "title" },
				h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ["Key", "Status", "Expires", "Last used", ""].map((text) =>
					h("th", { role: "columnheader", scope: "col" }, text || h("span.unseen", "Actions"))))),
				h("tbody", { role: "rowgroup" }, keys.map(row)))
			: nothing("key", "No client keys yet", "A viewer needs a key to read symbols and to download exports."));
	}

	const cell = (name, content) => h("td", { role: "cell", "data-name": name }, h("div", content));

	function row(key) {
		const { id, name, isActive, expiresAt, lastUsedAt } = key;
		const verb = isActive ? "Deactivate" : "Activate";
		return h("tr", { role: "row" },
			h("th", { role: "rowheader", scope: "row" }, h("span.name", name), h("code", key.maskedKey)),
			cell("Status", statuses(key).map(([kind, text]) => [h(`span.badge.${kind}`, text), " "])),
			cell("Expires", expiresAt ? time(expiresAt, date) : h("i", "Never")),
			cell("Last used", lastUsedAt ? time(lastUsedAt, ago) : h("i", "Never")),
			h("td.actions", { role: "cell" },
				button(verb, { kind: "small", id: `key-${id}-active`, "aria-label": `${verb} ${name}`, onclick: (event) => toggle(key, event.currentTarget) }),
				menuButton(`More for ${name}`, `key-${id}-menu`, () => [
					["Rename…", () => rename(key)],
					["Change expiry…", () => changeExpiry(key)],
					["Rotate…", () => rotate(key)],
					["Delete…", () => remove(key), "danger"],
				])));
	}

	function replace(key) {
		keys = keys.map((one) => (one.id === key.id ? key : one));
		paint();
	}

	const change = async ({ id }, fields) => replace(await send("PATCH", `/${id}`, fields));

	const toggle = (key, opener) => busy(opener, async () => {
		await change(key, { isActive: !key.isActive });
		say(key.isActive ? `${key.name} is deactivated: it is refused from now on.` : `${key.name} is active again.`);
		refocus(opener);
	}).catch((error) => trouble(strip, explained(error)));

	async function create() {
		const expiry = expiryField();
		const issued = await ask({
			title: "Create a client key",
			submit: "Create key",
			run: (name) => send("POST", "", { name, expiresAt: expiry.value() }),
		}, nameField("", "Who or what will use it: a viewer, a site, a colleague."), expiry.node);
		if (!issued) return;
		keys.push(issued.key);
		paint();
		showRawKey("Key created", issued);
	}

	const rename = (key) => ask({
		title: `Rename ${key.name}`,
		submit: "Rename",
		run: (name) => change(key, { name }),
	}, nameField(key.name));

	function changeExpiry(key) {
		const expiry = expiryField(key.expiresAt);
		return ask({ title: `When ${key.name} expires`, submit: "Save", run: () => change(key, { expiresAt: expiry.value() }) }, expiry.node);
	}

	async function rotate(key) {
		const issued = await ask({ title: `Rotate ${key.name}?`, submit: "Rotate key", danger: true, run: () => send("POST", `/${key.id}/rotate`) },
			h("p", "The present raw key stops working at once, everywhere. A new one is made and shown once: whoever uses this key needs it to go on."),
			h("p", "Name, status and expiry stay."), lastUse(key));
		if (!issued) return;
		replace(issued.key);
		showRawKey("Key rotated", issued);
	}

	function remove(key) {
		const at = keys.indexOf(key);
		const next = keys[at + 1] ?? keys[at - 1];
		return ask({ title: `Delete ${key.name}?`, submit: "Delete key", danger: true, after: next ? `key-${next.id}-menu` : "create-key", async run() {
			await send("DELETE", `/${key.id}`);
			keys = keys.filter((one) => one !== key);
			paint();
			say(`${key.name} deleted.`);
		} },
		h("p", "Whoever uses it is refused from that moment, for good. To stop it for a while, deactivate it instead."), lastUse(key));
	}

	return () => load();
}

const lastUse = ({ lastUsedAt }) => h("p.hint", lastUsedAt ? ["It was last used ", time(lastUsedAt, ago), "."] : "It has never been used.");

const time = (at, format) => h("time", { datetime: at, title: `${exact(at)} (${at})` }, format(at));

// left is how many days a key has before it expires.
const left = ({ expiresAt }) => (expiresAt ? (new Date(expiresAt) - Date.now()) / 86400e3 : Infinity);

function statuses(key) {
	const list = key.isActive ? [] : [["off", "Inactive"]];
	if (left(key) <= 0) list.push(["bad", "Expired"]);
	else if (left(key) < soon) list.push(["warn", left(key) < 1 ? "Expires in a day" : `Expires in ${plural(Math.floor(left(key)), "day")}`]);
	else if (key.isActive) list.push(["good", "Active"]);
	return list;
}
