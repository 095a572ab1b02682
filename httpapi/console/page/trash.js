import { CanvasbackError } from "../../client/client.js";
import { call, pages } from "./api.js";
import { fill, h, icon, timeNode } from "./dom.js";
import { plural } from "./text.js";
import { announce, button, emptyState, errorContent, formDialog, openDialog, runOnce } from "./ui.js";

const shownEntries = 200;

// entries returns what is in the trash, the latest deletion first.
async function entries() {
	const list = [];
	for await (const { records } of pages("symbol/trash?limit=1000", { key: "client" })) list.push(...records);
	return list.reverse();
}

const restore = ({ id }) => call("POST", `symbol/trash/${id}/restore`, { key: "client", body: {} });

// undelete takes back a deletion of symbols, or of a folder.
export async function undelete(...list) {
	const place = (kind, folderId, name) => JSON.stringify([kind, folderId, name]);
	const found = Map.groupBy(await entries(), ({ kind, folderId, name }) => place(kind, folderId, name));
	for (const { id, name, folderId } of list) {
		const entry = found.get(folderId ? place("symbol", folderId, name) : place("folder", id, name))?.shift();
		if (!entry) throw new CanvasbackError(`${name} is not in the trash any more`, { status: 404 });
		await restore(entry);
	}
}

// openTrash shows the trash in a dialog. named returns the folder with an id; restored
// is called after something has been restored.
export function openTrash(named, restored) {
	const content = h("div.stack", h("p", "Loading…"));
	openDialog({ title: "Trash" }, content);
	load();

	async function load() {
		try {
			write(await entries());
		} catch (error) {
			fill(content, h("div.problem", errorContent(error)));
		}
	}

	function write(list) {
		if (!list.length) return fill(content, emptyState("folder", "The trash is empty", "Deleted folders and symbols stay here as long as the server is set to keep them, 30 days by default."));
		fill(content,
			h("p.hint", list.length > shownEntries ? `The latest ${shownEntries} of ${plural(list.length, "deletion")}.` : "The latest deletion first."),
			h("ul.trash", list.slice(0, shownEntries).map(line)));
	}

	function line(entry) {
		const { kind, name, folderId, symbols, deletedAt } = entry;
		const problem = h("div");
		const attempt = (action) => ({ currentTarget }) => runOnce(currentTarget, action)
			.catch((error) => fill(problem, h("div.problem", errorContent(error))));
		const node = h("li", h("div", h("b", name),
			h("span.hint", kind === "folder" ? ["Folder with ", plural(symbols, "symbol")] : `Symbol of ${named(folderId)?.name ?? "a deleted folder"}`, ", deleted ", timeNode(deletedAt)), problem),
		button("Restore", { kind: "small", "aria-label": `Restore ${name}`, onclick: attempt(async () => {
			await restore(entry);
			node.remove();
			announce(`${name} restored.`);
			await restored();
		}) }),
		button(icon("close"), { kind: "quiet round", "aria-label": `Delete ${name} permanently`, title: "Delete permanently", onclick: () => removeForGood(entry, node) }));
		return node;
	}
}

const removeForGood = ({ id, name }, node) => formDialog({ title: `Delete ${name} permanently?`, submit: "Delete permanently", danger: true, async run() {
	await call("DELETE", `symbol/trash/${id}`, { key: "client" });
	node.remove();
	announce(`${name} deleted permanently.`);
} }, h("p", "It cannot be restored after that."));
