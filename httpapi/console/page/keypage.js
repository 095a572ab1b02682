// The pages of a key and of an owner.

import { call, pages } from "./api.js";
import { fill, h, timeNode } from "./dom.js";
import { createKeyActions, statusBadges } from "./keyactions.js";
import { scopesText } from "./keychange.js";
import { loadFailed } from "./keyforms.js";
import { plural } from "./text.js";
import { button, emptyState, heading, menuButton, runOnce, skeleton } from "./ui.js";
import { usage } from "./usage.js";

const listed = 20; // keys of an owner
const ownerURL = (owner) => `#/owner/${encodeURIComponent(owner)}`;
const allKeysOf = (owner) => `#/keys?${new URLSearchParams({ owner })}`;

export const ownerLink = (owner, props) => h("a", { href: ownerURL(owner), ...props }, owner);

const facts = (values) => h("dl.card", Object.entries(values).map(([name, value]) => h("div", h("dt", name), h("dd", value))));
const backToKeys = () => h("a.button", { href: "#/keys" }, "All keys");

// loaded shows what load reads into a page, or why it cannot. missing is what it shows at
// a 404.
async function loaded(body, load, missing) {
	const wait = skeleton("rows");
	fill(body, wait);
	const latest = () => body.firstChild === wait;
	try {
		const show = await load();
		if (latest()) show();
	} catch (error) {
		if (!latest()) return;
		if (error.status === 404) fill(body, missing());
		else loadFailed(body, "admin", error, () => loaded(body, load, missing));
	}
}

export function keyScreen(root) {
	const [title, summary, tools, banner, body] = [h("span"), h("span"), h("div.actions"), h("div"), h("div")];
	const gone = (id) => emptyState("key", `There is no key ${id}`, "It may have been deleted. Ids are never used again.", backToKeys());
	let openId; // of the key whose page this is
	const ifOpen = (show) => (key) => key.id === openId && show(key); // an action may end on the page of another key
	const actions = createKeyActions({ banner, replaced: ifOpen(write), removed: ifOpen(({ id }) => (fill(tools), fill(body, gone(id)))) });
	root.append(heading(title, summary, tools), banner, body);

	function write(key) {
		title.textContent = key.name;
		summary.textContent = `${key.maskedKey}, ID ${key.id}`;
		const { id, owner, isActive } = key;
		fill(tools, backToKeys(),
			button(isActive ? "Deactivate" : "Activate", { id: "key-active", onclick: ({ currentTarget }) => runOnce(currentTarget, () => actions.toggle(key)) }),
			menuButton(`More for ${key.name}`, "key-menu", () => actions.entries(key)));
		fill(body, h("div.stack", facts({
			Status: statusBadges(key),
			Owner: owner === null ? h("i", "None") : ownerLink(owner),
			Permits: scopesText(key.scopes),
			Created: timeNode(key.createdAt),
			Changed: timeNode(key.updatedAt),
			Expires: key.expiresAt ? timeNode(key.expiresAt) : h("i", "Never"),
			"Last used": key.lastUsedAt ? timeNode(key.lastUsedAt) : h("i", "Never"),
			Uses: key.useCount.toLocaleString("en"),
		}), h("section.card", h("h2", "Requests"), usage(`admin/api-keys/${id}/usage`))));
	}

	return ([id]) => {
		openId = Number(id);
		title.textContent = `Key ${id}`;
		summary.textContent = "";
		fill(tools);
		return loaded(body, async () => {
			const key = await call("GET", `admin/api-keys/${encodeURIComponent(id)}`, { key: "admin" });
			return () => write(key);
		}, () => gone(id));
	};
}

export function ownerScreen(root) {
	const [title, summary, body] = [h("span"), h("span"), h("div")];
	root.append(heading(title, summary, h("div.actions", backToKeys())), body);

	function write(owner, keys) {
		const used = keys.filter(({ lastUsedAt }) => lastUsedAt).sort((a, b) => b.useCount - a.useCount);
		const last = used.map(({ lastUsedAt }) => lastUsedAt).sort().at(-1);
		const active = keys.filter(({ isActive }) => isActive).length;
		summary.textContent = plural(keys.length, "key");
		fill(body, h("div.stack", facts({
			Keys: h("a", { href: allKeysOf(owner) }, `${plural(keys.length, "key")}, ${active.toLocaleString("en")} active`),
			"Last used": last ? timeNode(last) : h("i", "Never"),
			Uses: keys.reduce((sum, { useCount }) => sum + useCount, 0).toLocaleString("en"),
		}), h("section.card", h("h2", "Requests"), usage(`admin/usage?owner=${encodeURIComponent(owner)}`)),
		h("section.card", h("h2", "Most used keys"), keyCounts(used.slice(0, listed)))));
	}

	return ([name = ""]) => {
		const owner = new URLSearchParams(`q=${name.replaceAll("+", "%2B")}`).get("q");
		title.textContent = owner;
		summary.textContent = "";
		return loaded(body, async () => {
			const keys = [];
			for await (const { records } of pages(`admin/api-keys?limit=1000&owner=${encodeURIComponent(owner)}`, { key: "admin" })) keys.push(...records);
			return () => write(owner, keys);
		}, () => "");
	};
}

// keyCounts lists keys with their uses.
export const keyCounts = (keys) => (keys.length
	? h("ul.counts", keys.map(({ id, name, useCount, lastUsedAt }) => h("li", h("a", { href: `#/key/${id}` },
		h("span", name, h("span.hint", "Last used ", timeNode(lastUsedAt))), h("b", useCount.toLocaleString("en"))))))
	: h("p.hint", "No key has been used yet."));
