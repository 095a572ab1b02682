// Changes of a client key, which another administrator may change too.

import { send } from "./api.js";
import { unlessChanged } from "./conflicts.js";
import { exact } from "./text.js";

const shown = {
	name: (name) => ["Name", name],
	isActive: (isActive) => ["Status", isActive ? "Active" : "Inactive"],
	expiresAt: (time) => ["Expires", time ? exact(time) : "Never"],
	owner: (owner) => ["Owner", owner ?? "None"],
	scopes: (scopes) => ["Permits", scopesText(scopes)],
	maskedKey: (key) => ["Raw key", key],
};

export const scopesText = (scopes) => (scopes ? scopes.join(", ") || "Nothing" : "Everything");

const keyPath = ({ id }) => `admin/api-keys/${id}`;

// withTag returns the record of a response and its ETag.
const withTag = async (response) => ({ ...await response.json(), etag: response.headers.get("ETag") });

// changeKey sends a request for a key that is still as seen, and returns the response.
// mine are the values that the key is to have, undefined if it is to be deleted.
function changeKey(seen, { method, path = "", body, names, mine }) {
	return unlessChanged(seen, {
		stored: async () => withTag(await send("GET", keyPath(seen), { key: "admin" })),
		isChanged: (now) => names.some((name) => JSON.stringify(now[name]) !== JSON.stringify(seen[name])),
		values: (now) => Object.entries(shown).map(([name, show]) => {
			const [label, theirs] = show(now[name]);
			return { name: label, theirs, mine: mine && show({ ...now, ...mine }[name])[1] };
		}),
		request: (headers) => send(method, keyPath(seen) + path, { key: "admin", headers, body }),
	});
}

export const updateKey = async (seen, fields) =>
	withTag(await changeKey(seen, { method: "PATCH", body: fields, names: Object.keys(fields), mine: fields }));

const all = Object.keys(shown);

export const deleteKey = (seen) => changeKey(seen, { method: "DELETE", names: all });

export async function rotateKey(seen, overlapSeconds) {
	const response = await changeKey(seen, { method: "POST", path: "/rotate", body: { overlapSeconds }, names: all, mine: { maskedKey: "A new one" } });
	return response.json();
}
