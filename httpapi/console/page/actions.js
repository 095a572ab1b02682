// What the user does with symbols and folders, in dialogs.

import { editor } from "./conflicts.js";
import { fill, h } from "./dom.js";
import { replacePicture, saveSymbol } from "./symbol.js";
import { plural } from "./text.js";
import { download, importLibrary, isLibrary, uploads } from "./transfer.js";
import { undelete } from "./trash.js";
import { announce, button, each, errorContent, field, focusFirst, formDialog, inParts, nameField, searchField, settled, showProblem } from "./ui.js";
import { zipOf } from "./zip.js";

export const nextToMe = 8; // folders that need no search

const toTrash = "What is deleted can be restored from the trash, for 30 days unless the server is set otherwise.";

const listOf = (text) => text.split("\n").map((one) => one.trim()).filter(Boolean);
const nameOf = (list) => (list.length === 1 ? list[0].name : plural(list.length, "symbol"));

// choose opens the file dialog of the browser.
export function fileChooser(accept, multiple, chosen) {
	return h("input", { type: "file", accept, multiple, hidden: true, onchange({ target }) {
		const files = [...target.files];
		target.value = "";
		chosen(files);
	} });
}

// tagsField is a field for tags.
const tagsField = (label, tags = []) =>
	field(label, h("textarea", { value: tags.join("\n"), rows: "3", autocomplete: "off" }), "One per line.");

const tagsIn = (node) => listOf(node.querySelector("textarea").value);

// createActions returns the actions on a library. chosen is the selection; problems are
// shown in the banner.
export function createActions(library, chosen, banner) {
	const { call, send, named } = library;
	const place = () => library.place.value;
	const showError = (error) => (document.querySelector("dialog") ? announce(error.message) : showProblem(banner, errorContent(error))); // it covers the banner
	const selected = () => [...(library.symbols.value ?? new Map()).values()].filter(({ id }) => chosen.ids.has(id));

	// attempt runs an action without a dialog of its own.
	const attempt = (run) => settled(run).catch(showError);

	const updateAll = (title, list, fields) => inParts(banner, title, list, (ids) => call("PATCH", "symbols", { body: { ids, ...fields } }));
	const deleteAll = (title, list) => inParts(banner, title, list, (ids) => call("POST", "symbols/delete", { body: { ids } }));

	// offerUndo announces a change of a symbol, which before takes back.
	function offerUndo(text, changed, before) {
		const change = editor(changed, library.update);
		announce(text, () => settled(() => change(before)));
	}

	function rename(symbol) {
		const change = editor(symbol, library.update);
		return formDialog({ title: "Rename symbol", submit: "Rename", async run(name) {
			const renamed = await change({ name });
			offerUndo(`${symbol.name} renamed.`, renamed, { name: change.seen.name });
		} }, nameField(symbol.name));
	}

	function replaceBy(symbol, file) {
		const change = editor(symbol, library.update);
		return replacePicture(symbol, file, {
			add: (one) => add([one]),
			async run(after, before) {
				const changed = await change(after);
				offerUndo(`The picture of ${symbol.name} is replaced.`, changed, before);
			},
		}).catch(showError);
	}

	const editTags = (symbol) => attempt(async () => {
		const { tags } = await call("GET", `symbols/${symbol.id}?fields=tags`);
		const change = editor({ ...symbol, tags }, library.update);
		const edited = tagsField("Tags", tags);
		await formDialog({ title: `Tags of ${symbol.name}`, submit: "Save", async run() {
			const changed = await change({ tags: tagsIn(edited) });
			offerUndo(`Tags of ${symbol.name} changed.`, changed, { tags: change.seen.tags });
		} }, edited);
	});

	function tagAll(list) {
		const [added, removed] = [tagsField("Add"), tagsField("Remove")];
		return formDialog({ title: `Tag ${plural(list.length, "symbol")}`, submit: "Save", async run() {
			const done = await updateAll("Tagging", list, { addTags: tagsIn(added), removeTags: tagsIn(removed) });
			announce(`Tags of ${plural(done.length, "symbol")} changed.`);
			await library.refresh();
		} }, added, removed);
	}

	// apply moves symbols, which then have the returned records.
	async function apply(list, folderId) {
		if (list.length === 1) return [await library.update(list[0], { folderId })];
		const moved = await updateAll("Moving", list, { folderId });
		const records = moved.map((one) => ({ ...one, folderId, etag: undefined, updatedAt: undefined }));
		library.show(...records);
		return records;
	}

	// move moves symbols and offers to undo that. The error of one is thrown.
	async function move(list, to) {
		const back = new Map(list.map(({ id, folderId }) => [id, folderId]));
		const others = list.filter(({ folderId }) => folderId !== to);
		const one = others.length === 1 && editor(others[0], library.update);
		const done = one ? [await one({ folderId: to })] : await apply(others, to);
		if (one) back.set(one.seen.id, one.seen.folderId);
		if (!done.length) return;
		announce(`${nameOf(done)} moved to ${named(to).name}.`, async () => {
			for (const [folderId, group] of Map.groupBy(done, ({ id }) => back.get(id))) await apply(group, folderId);
			await library.refresh();
		});
	}

	// copy sends what it reads as it is: JSON.parse would change numbers in meta.
	async function copy({ id, name }, to) {
		const body = await (await send("GET", `symbols/${id}?fields=name,type,data,tags,meta`)).blob();
		await call("POST", `folders/${to}/symbols`, { body });
		announce(`${name} copied to ${named(to).name}.`);
		await library.refresh();
	}

	// chooseFolder moves or copies symbols to a folder that the user chooses.
	function chooseFolder(list, verb) {
		const others = library.folders.value.filter(({ id }) => id !== place().folder?.id || verb === "Copy");
		if (!others.length) return announce("There is no other folder yet.");
		const to = h("select", { size: Math.min(8, Math.max(2, others.length)), required: true });
		const write = (text) => {
			const matches = others.filter(({ name }) => name.toLowerCase().includes(text));
			fill(to, matches.map(({ id, name }) => h("option", { value: String(id) }, name)));
			to.selectedIndex = 0;
		};
		write("");
		const search = searchField("Find a folder", "Find a folder", ({ target }) => write(target.value.trim().toLowerCase()));
		return formDialog({
			title: `${verb} ${nameOf(list)}`,
			submit: verb,
			after: neighbor(list),
			run: () => (verb === "Move" ? move(list, Number(to.value)) : copy(list[0], Number(to.value))),
		}, others.length > nextToMe && search, field("To folder", to));
	}

	function remove(list) {
		const [one] = list;
		const single = list.length === 1;
		const change = editor(one, library.change);
		return formDialog({
			title: `Delete ${nameOf(list)}?`,
			submit: single ? "Delete symbol" : `Delete ${nameOf(list)}`,
			danger: true,
			after: neighbor(list),
			async run() {
				if (single) await change();
				const done = single ? [change.seen] : await deleteAll("Deleting", list);
				library.drop(done);
				if (!done.length) return;
				announce(`${nameOf(done)} deleted.`, () => undelete(...done).then(library.refresh));
			},
		}, h("p", toTrash));
	}

	// neighbor returns the id of the element to focus after symbols are removed.
	function neighbor(list) {
		const found = library.found.value;
		const at = found.findIndex(({ id }) => id === list[0].id);
		const stays = (one) => !list.includes(one);
		const next = found.slice(at + 1).find(stays) ?? found.slice(0, at).findLast(stays);
		return next ? `symbol-${next.id}` : "add-images";
	}

	// add adds pictures, a few hundred with each request, and imports libraries.
	async function add(files, to = place().folder) {
		const pictures = files.filter((file) => !isLibrary(file));
		const done = await each(banner, `Adding to ${to.name}`, uploads(pictures), async (upload, signal, progress) => {
			const body = await zipOf(upload.files);
			return call("POST", `folders/${to.id}/import?skip=true`, { body, signal, progress });
		}, 1);
		const added = done.flatMap((one) => one.files);
		const left = done.flatMap((one) => [...one.skipped, ...one.ignored]);
		if (added.length) {
			await library.refresh();
			announce(`${plural(added.length, "symbol")} added to ${to.name}.`, async () => {
				await deleteAll("Undoing", added.map(({ symbolId, name }) => ({ id: symbolId, name })));
				await library.refresh();
			});
		}
		if (left.length) {
			const shown = left.slice(0, 20).map(({ file, reason }) => h("li", h("b", file), `: ${reason}`));
			const failed = [...banner.querySelectorAll(".problem > :not(.button)")]; // uploads
			showProblem(banner, [failed, h("strong", `Adding to ${to.name}: ${left.length} of ${pictures.length} left out`), h("ul", shown)]);
		} else if (banner.isConnected && added.length) focusFirst("add-images");
		for (const file of files.filter(isLibrary)) await importLibrary(to, file, library.reload);
	}

	async function createFolder() {
		const created = await formDialog({ title: "New folder", submit: "Create folder", run: library.createFolder }, nameField("", "Unique among folders."));
		if (created && banner.isConnected) location.hash = `#/symbols/${created.id}`;
	}

	function renameFolder() {
		const { folder } = place();
		const change = editor(folder, library.updateFolder);
		return formDialog({ title: "Rename folder", submit: "Rename", async run(name) {
			const renamed = await change({ name });
			const back = editor(renamed, library.updateFolder);
			announce(`${folder.name} renamed.`, () => settled(() => back({ name: change.seen.name })));
		} }, nameField(folder.name, "Unique among folders."));
	}

	async function deleteFolder() {
		const { folder } = place();
		const count = library.symbols.value?.size;
		const all = count ? ` and ${library.complete.value ? plural(count, "symbol") : "its symbols"}` : "";
		const change = editor(folder, library.deleteFolder);
		const text = all ? toTrash : `The folder is empty. ${toTrash}`;
		const deleted = await formDialog({ title: `Delete ${folder.name}?`, submit: `Delete folder${all}`, danger: true, run: () => change() }, h("p", text));
		if (deleted) announce(`${folder.name} deleted.`, async () => {
			await undelete(change.seen);
			await library.load();
			location.hash = `#/symbols/${folder.id}`;
		});
		return deleted;
	}

	function exportFolder(format) {
		const { id, name } = place().folder;
		const file = `${name}.${format === "zip" ? "zip" : "xml"}`;
		return download(banner, `Exporting ${name}`, file, `symbol/folders/${id}/export?format=${format}`).catch(showError);
	}

	return {
		showError, selected, rename, replaceBy, tagAll, chooseFolder, remove, add, createFolder, renameFolder, deleteFolder, exportFolder,

		move: (list, to) => attempt(() => move(list, to)),

		entries: (symbol) => [
			["Rename…", () => rename(symbol)],
			["Replace picture…", () => fileChooser("image/*,.svg", false, ([file]) => replaceBy(symbol, file)).click()],
			["Tags…", () => editTags(symbol)],
			["Move…", () => chooseFolder([symbol], "Move")],
			["Copy to a folder…", () => chooseFolder([symbol], "Copy")],
			["Download", () => saveSymbol(symbol).catch(showError)],
			["Delete…", () => remove([symbol]), "danger"],
		],

		// bulk are the buttons for the selected symbols.
		bulk: [
			button("Select all", { kind: "small", onclick: () => chosen.set(library.found.value.map(({ id }) => id)) }),
			button("Move…", { kind: "small", onclick: () => chooseFolder(selected(), "Move") }),
			button("Tag…", { kind: "small", onclick: () => tagAll(selected()) }),
			button("Delete…", { kind: "small", onclick: () => remove(selected()) }),
		],
	};
}
