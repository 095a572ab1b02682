// What an administrator does with one key, in dialogs.

import { editor } from "./conflicts.js";
import { h, timeNode } from "./dom.js";
import { deleteKey, rotateKey, updateKey } from "./keychange.js";
import { expiryField, overlapField, ownerField, permissions, showRawKey } from "./keyforms.js";
import { exact, plural } from "./text.js";
import { announce, errorContent, formDialog, nameField, settled, showProblem } from "./ui.js";

const soon = 30; // days before a key expires

// daysLeft returns the days until a key expires.
export const daysLeft = ({ expiresAt }) => (expiresAt ? (new Date(expiresAt) - Date.now()) / 86400e3 : Infinity);

export const isExpiring = (key) => daysLeft(key) > 0 && daysLeft(key) < soon;

// statusBadges shows the state of a key.
export function statusBadges(key) {
	const left = daysLeft(key);
	const list = key.isActive ? [] : [["off", "Inactive"]];
	if (left <= 0) list.push(["bad", "Expired"]);
	else if (left < soon) list.push(["warn", left < 1 ? "Expires in a day" : `Expires in ${plural(Math.floor(left), "day")}`]);
	else if (key.isActive) list.push(["good", "Active"]);
	if (key.scopes?.length === 0) list.push(["off", "Permits nothing"]);
	for (const scope of key.scopes ?? []) list.push(["off", scope]);
	if (key.previousKeyExpiresAt) list.push(["warn", `Previous key until ${exact(key.previousKeyExpiresAt)}`]);
	return list.map(([kind, text]) => [h(`span.badge.${kind}`, text), " "]);
}

const lastUse = ({ lastUsedAt, useCount }) =>
	h("p.hint", lastUsedAt ? [`Used ${plural(useCount, "time")}, last `, timeNode(lastUsedAt), "."] : "Never used.");

// changeText tells what a change has done.
function changeText(key, fields) {
	const { name, isActive } = key;
	if (!("isActive" in fields)) return `${name} changed.`;
	if (!isActive) return `${name} is deactivated and now rejected.`;
	return daysLeft(key) <= 0 ? `${name} is activated, but it has expired and is still rejected.` : `${name} is active again.`;
}

// valuesOf returns the values that a key has in the given fields.
export const valuesOf = (key, fields) => Object.fromEntries(Object.keys(fields).map((name) => [name, key[name]]));

// createKeyActions returns the actions on a key. replaced is called with a changed key,
// removed with one that is gone; neighbor returns the id of the element to focus then.
export function createKeyActions({ banner, replaced, removed, neighbor = () => "title" }) {
	// shown runs a change and shows its result, or what someone else has changed.
	const shown = (change) => async (seen, body) => {
		try {
			return await change(seen, body);
		} catch (error) {
			if (error.now) replaced(error.now);
			if (error.status === 404) removed(seen);
			throw error;
		}
	};

	const update = shown(async (seen, fields) => {
		const changed = await updateKey(seen, fields);
		replaced(changed);
		return changed;
	});

	// changer returns a function that changes fields of a key and offers to undo that.
	function changer(key) {
		const change = editor(key, update);
		return async (fields) => {
			const changed = await change(fields);
			const back = editor(changed, update);
			announce(changeText(changed, fields), () => settled(() => back(valuesOf(change.seen, fields))));
		};
	}

	// toggle activates or deactivates a key.
	function toggle(key) {
		const change = changer(key);
		return settled(() => change({ isActive: !key.isActive })).catch((error) => showProblem(banner, errorContent(error)));
	}

	const rename = (key) => {
		const change = changer(key);
		return formDialog({ title: `Rename ${key.name}`, submit: "Rename", run: (name) => change({ name }) }, nameField(key.name));
	};

	function changeExpiry(key) {
		const change = changer(key);
		const expiry = expiryField(key.expiresAt);
		return formDialog({ title: `When ${key.name} expires`, submit: "Save", run: () => change({ expiresAt: expiry.value() }) }, expiry.node);
	}

	function changeScopes(key) {
		const change = changer(key);
		const [owned, scopes] = [ownerField(key.owner), permissions(key.scopes)];
		return formDialog({
			title: `What ${key.name} permits`,
			submit: "Save",
			run: () => change({ owner: owned.value(), scopes: scopes.value() }),
		}, owned.node, scopes.node);
	}

	async function rotate(key) {
		const overlap = overlapField();
		const change = editor(key, shown(rotateKey));
		const issued = await formDialog({ title: `Rotate ${key.name}?`, submit: "Rotate key", danger: true, run: () => change(overlap.value()) },
			h("p", "A new raw key is shown once; every client that uses this key needs it. A raw key from before the current one stops working immediately."), overlap.node,
			h("p", "Name, status, expiry, owner and scopes are kept."), lastUse(key));
		if (!issued) return;
		replaced(issued.key);
		showRawKey("Key rotated", issued);
	}

	function remove(key) {
		const change = editor(key, shown(deleteKey));
		return formDialog({ title: `Delete ${key.name}?`, submit: "Delete key", danger: true, after: neighbor(key), async run() {
			await change();
			removed(key);
			announce(`${key.name} deleted.`);
		} },
		h("p", "The key is rejected permanently. To block it temporarily, deactivate it instead."), lastUse(key));
	}

	return {
		toggle,
		changeExpiry,

		entries: (key) => [
			["Rename…", () => rename(key)],
			["Change expiry…", () => changeExpiry(key)],
			["Change owner and scopes…", () => changeScopes(key)],
			["Rotate…", () => rotate(key)],
			[key.isActive ? "Deactivate" : "Activate", () => toggle(key)],
			["Delete…", () => remove(key), "danger"],
		],
	};
}
