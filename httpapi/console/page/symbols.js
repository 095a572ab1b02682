import { CanvasbackError } from "../../client/client.js";
import { call, pages, send } from "./api.js";
import { byId, byName, fill, h, icon, plural } from "./dom.js";
import { virtualGrid } from "./grid.js";
import { isRejected, loadFailed } from "./keyforms.js";
import { openSymbol, replacePicture, saveSymbol, thumbnail } from "./symbol.js";
import { download, importLibrary, isLibrary, uploads } from "./transfer.js";
import { openTrash, undelete } from "./trash.js";
import { announce, button, each, emptyState, errorContent, errorState, field, focusFirst, formDialog, heading, iconButton, inParts, menuButton, nameField, openMenu, searchField, selection, showLoadProblem, showProblem, skeleton } from "./ui.js";
import { zipOf } from "./zip.js";

const client = (method, path, options) => call(method, `symbol/${path}`, { key: "client", ...options });
const fields = "fields=id,name,type,folderId,size,updatedAt";
const nextToMe = 8; // folders that need no search
const isPicture = ({ name, type }) => type.startsWith("image/") || /\.svg$/i.test(name);

const toTrash = "What is deleted can be restored from the trash, for 30 days unless the server is set otherwise.";

const wordsOf = (text) => text.trim().toLowerCase().split(/\s+/);
const listOf = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

export function symbolsScreen(root) {
	let folders; // by name; undefined until loaded
	let folder; // the open folder, or undefined in a search
	let symbols = new Map(); // of the open folder or search, by id
	let found = []; // those that match the filter
	let searched = ""; // the text of the open search
	let previous; // the id of the folder that was open before a search
	let shownHash; // of the open folder or search
	let complete; // whether all symbols are loaded
	let dragged; // symbols
	let viewer; // the dialog of a symbol
	let loading = new AbortController();
	let typing;

	const title = h("span", "Symbols");
	const summary = h("span");
	const filter = searchField("Filter", "Filter by name or type", () => render());
	const query = searchField("Search all folders", "Search all folders", () => {
		clearTimeout(typing);
		typing = setTimeout(() => {
			history.replaceState(null, "", query.value ? `#/symbols/search/${encodeURIComponent(query.value)}` : "#/symbols");
			open();
		}, 120);
	});
	const folderFilter = searchField("Find a folder", "Find a folder", renderFolders);
	const more = button("Show more", { hidden: true, onclick: () => showMore() });
	let showMore;
	const images = chooser("image/*,.svg", true, (files) => add(files));
	const archive = chooser(".zip,.xml,.drawio,.json,application/zip", false, (files) => add(files));
	const addImages = (id) => button("Add images", { kind: "main", symbol: "plus", id, onclick: () => images.click() });
	const tools = h("div.actions", { hidden: true }, filter,
		iconButton("reload", "Reload", { id: "reload", onclick: () => load().then(() => focusFirst("reload")) }),
		menuButton("Folder actions", "folder-menu", () => [
			["Rename folder…", renameFolder],
			["Import a zip or library…", () => archive.click()],
			["Export as zip", () => exportFolder("zip")],
			["Export for draw.io", () => exportFolder("drawio")],
			["Select all", () => chosen.set(found.map(({ id }) => id))],
			["Trash…", () => openTrash(named, load)],
			["Delete folder…", deleteFolder, "danger"],
		]),
		addImages("add-images"), images, archive);
	const banner = h("div");
	const body = h("div");
	const chosen = selection("symbol", () => {
		for (const box of grid.node.querySelectorAll("input")) box.checked = chosen.ids.has(Number(box.value));
		grid.node.classList.toggle("selecting", chosen.ids.size > 0);
		chosen.count(found);
	},
	button("Select all", { kind: "small", onclick: () => chosen.set(found.map(({ id }) => id)) }),
	button("Move…", { kind: "small", onclick: () => chooseFolder(selected(), "Move") }),
	button("Tag…", { kind: "small", onclick: () => tagAll(selected()) }),
	button("Delete…", { kind: "small", onclick: () => remove(selected()) }));
	const pane = h("section.pane", { "aria-labelledby": "title" }, chosen.node, banner, body, more);
	const list = h("ul", { onkeydown });
	const toggle = button("Folders", { kind: "small toggle", "aria-expanded": "false", onclick: () => expand(toggle.ariaExpanded !== "true") });
	const side = h("nav.side", { "aria-label": "Folders", hidden: true }, query, toggle,
		h("h2", "Folders"), button("New folder", { kind: "quiet small", symbol: "plus", id: "new-folder", onclick: createFolder }), folderFilter, list);
	const loads = new WeakMap(); // image loads by tile
	const grid = virtualGrid(tile, (node) => loads.get(node).abort());
	root.append(heading(title, summary, tools), h("div.split", side, pane));
	acceptDrops(pane, () => folder);

	function chooser(accept, multiple, chosen) {
		return h("input", { type: "file", accept, multiple, hidden: true, onchange({ target }) {
			const files = [...target.files];
			target.value = "";
			chosen(files);
		} });
	}

	const selected = () => [...symbols.values()].filter(({ id }) => chosen.ids.has(id));
	const named = (id) => folders.find((one) => one.id === id);

	function expand(on) {
		toggle.ariaExpanded = on;
		if (on) folderFilter.focus();
	}

	async function load() {
		if (!folders) fill(body, skeleton("grid"));
		try {
			const all = [];
			for await (const { records } of pages("symbol/folders?limit=1000", { key: "client" })) all.push(...records);
			folders = all.sort((a, b) => byName(a.name, b.name));
		} catch (error) {
			if (folders && !isRejected(error)) return showLoadProblem(banner, error, load);
			folders = undefined;
			side.hidden = tools.hidden = true;
			return loadFailed(body, "client", error, load);
		}
		side.hidden = false;
		await open(true);
	}

	// open shows what the fragment names: a folder, by default the first one, one of
	// its symbols, or a search.
	async function open(reload) {
		const [, , id, rest] = location.hash.split("/");
		const text = id === "search" ? new URLSearchParams(`q=${rest}`).get("q") : "";
		if (rest && !text) show(Number(rest));
		if (!reload && symbols.has(Number(rest))) return;
		const target = text ? undefined : named(Number(id)) ?? named(previous) ?? folders[0];
		const same = shownHash && target?.id === folder?.id && text === searched;
		if (same && !reload) return;
		loading.abort();
		loading = new AbortController();
		const { signal } = loading;
		const again = searched && text; // the tiles stay until others are found
		[folder, searched] = [target, text];
		if (query.value.trim() !== text.trim()) query.value = text;
		previous = folder?.id ?? previous;
		shownHash = folder ? `#/symbols/${folder.id}` : location.hash;
		renderFolders();
		expand(false);
		tools.hidden = !folder;
		more.hidden = true;
		title.textContent = folder?.name ?? (text ? "Search" : "Symbols");
		if (!same) summary.textContent = "";
		if (!folder && !text) return fill(body, emptyState("folder", "No folders yet", "Create a folder and drop drawings into it.", button("New folder", { kind: "main", symbol: "plus", onclick: createFolder })));
		if (!same) {
			symbols = new Map();
			chosen.set([]);
			filter.value = "";
			if (!again) fill(body, skeleton("grid"));
			if (root.isConnected) scrollTo(0, 0);
		}
		try {
			await read(folder ? `folders/${folder.id}/symbols?limit=1000` : `search?q=${encodeURIComponent(text)}`, signal, same);
		} catch (error) {
			if (signal.aborted) return;
			if (same && !isRejected(error)) return showLoadProblem(banner, error, load);
			shownHash = undefined; // of a list that is not shown
			fill(body, errorState(error, load));
		}
	}

	// read shows the pages of a list: all of a folder, those of a search on request.
	// A list that is shown stays until all of it is read again.
	async function read(path, signal, same) {
		const latest = new Map();
		complete = false;
		for await (const page of pages(`symbol/${path}&${fields}`, { key: "client", signal })) {
			for (const one of page.records) latest.set(one.id, one);
			if (same && folder && page.more) continue;
			for (const [id, one] of same ? [] : symbols) latest.set(id, latest.get(id) ?? one); // uploads
			symbols = latest;
			complete = !page.more;
			render();
			more.hidden = Boolean(folder) || complete;
			if (!more.hidden) await new Promise((resolve) => (showMore = resolve));
		}
	}

	function renderFolders() {
		const text = folderFilter.value.trim().toLowerCase();
		const matches = folders.filter(({ name }) => name.toLowerCase().includes(text));
		folderFilter.hidden = folders.length <= nextToMe;
		toggle.textContent = folder ? `Folder: ${folder.name}` : "Folders";
		const stop = matches.includes(folder) ? folder : matches[0];
		fill(list, matches.map((one) => {
			const link = h("a", { href: `#/symbols/${one.id}`, id: `folder-${one.id}`, tabindex: one === stop ? 0 : -1, "aria-current": one === folder && "page" }, icon("folder"), h("span", one.name));
			acceptDrops(link, () => one);
			return h("li", link);
		}), !matches.length && h("li.hint", "No folder matches."));
		const current = folder && byId(`folder-${folder.id}`)?.parentNode;
		if (current && list.scrollHeight > list.clientHeight) list.scrollTop = current.offsetTop - list.clientHeight / 2;
	}

	// onkeydown moves the focus in the list of folders, which is one tab stop.
	function onkeydown(event) {
		const links = [...list.querySelectorAll("a")];
		const at = links.indexOf(event.target);
		const to = links[{ ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: links.length - 1 }[event.key]];
		if (!to) return;
		event.preventDefault();
		to.focus();
	}

	// show opens a symbol over the list. Closing it restores the URL of the list.
	async function show(id) {
		if (viewer?.shown().id === id) return;
		viewer?.close();
		try {
			const symbol = symbols.get(id) ?? await client("GET", `symbols/${id}`);
			viewer = openSymbol(symbol, {
				list: () => found,
				moved: (to) => history.replaceState(null, "", `#/symbols/${to.folderId}/${to.id}`),
				closed() {
					grid.reveal(viewer.shown());
					viewer = undefined;
					if (location.hash.split("/").length > 3 && location.hash.startsWith("#/symbols/")) history.replaceState(null, "", shownHash);
				},
				actions: (one) => entries(one).filter(([text]) => text !== "Download"),
				dropped: (one, files) => (files.length === 1 ? replaceBy(one, files[0]) : undefined),
			});
		} catch (error) {
			history.replaceState(null, "", shownHash);
			showError(error);
		}
	}

	function render() {
		const text = filter.value.trim().toLowerCase();
		const words = wordsOf(text);
		found = [...symbols.values()].filter(({ name, type }) => words.every((word) => `${name} ${type}`.toLowerCase().includes(word)));
		viewer?.update();
		chosen.count(found);
		summary.textContent = `${found.length < symbols.size ? `${found.length.toLocaleString("en")} of ` : ""}${plural(symbols.size, "symbol")}${complete || folder ? "" : ", more on request"}`;
		if (found.length) {
			if (!grid.node.isConnected) fill(body, grid.node);
			grid.show(found, folder ? 3.9 : 5.3);
		} else if (!folder) fill(body, emptyState("folder", "No symbol matches", `No name contains “${searched}”.`));
		else if (!symbols.size) fill(body, emptyState("folder", "This folder is empty", "Drop images or a zip here, or choose some.", addImages(), button("Import a zip or library", { onclick: () => archive.click() })));
		else fill(body, emptyState("folder", "No symbol matches", `No name or type in ${folder.name} contains “${text}”.`));
	}

	function tile(symbol) {
		const { id, name, folderId } = symbol;
		const plate = h("span.preview", { "aria-hidden": "true" });
		const toggle = (range) => chosen.toggle(id, range, found.map((one) => one.id));
		const box = h("input", { type: "checkbox", tabindex: "-1", value: id, "aria-label": `Select ${name}`, onclick: (event) => toggle(event.shiftKey) });
		box.checked = chosen.ids.has(id);
		const menu = menuButton(`Actions for ${name}`, `symbol-${id}-menu`, () => entries(symbol), { tabindex: "-1" });
		const load = new AbortController();
		const node = h("li.tile", { id: `tile-${id}`, oncontextmenu(event) {
			event.preventDefault();
			openMenu(menu, name, entries(symbol));
		} }, h("a", {
			href: `#/symbols/${folderId}/${id}`,
			id: `symbol-${id}`,
			draggable: "true",
			onkeydown(event) {
				const action = {
					" ": () => toggle(event.shiftKey),
					F2: () => rename(symbol),
					Delete: () => remove(chosen.ids.has(id) ? selected() : [symbol]),
				}[event.key];
				if (!action) return;
				event.preventDefault();
				action();
			},
			onclick(event) {
				if (!event.shiftKey) return;
				event.preventDefault();
				toggle(true);
			},
			ondragstart({ dataTransfer }) {
				dragged = chosen.ids.has(id) ? selected() : [symbol];
				dataTransfer.setData("text/plain", name);
				dataTransfer.effectAllowed = "move";
			},
			ondragend: () => (dragged = undefined),
		}, plate, h("span.name", { title: name }, name), !folder && h("span.hint", named(folderId)?.name)), box, menu);
		loads.set(node, load);
		// A tile that is only passed loads nothing.
		setTimeout(() => load.signal.aborted || thumbnail(symbol, plate, load.signal).catch(() => {}), 60);
		return node;
	}

	const entries = (symbol) => [
		["Rename…", () => rename(symbol)],
		["Replace picture…", () => chooser("image/*,.svg", false, ([file]) => replaceBy(symbol, file)).click()],
		["Tags…", () => editTags(symbol)],
		["Move…", () => chooseFolder([symbol], "Move")],
		["Copy to a folder…", () => chooseFolder([symbol], "Copy")],
		["Download", () => saveSymbol(symbol).catch(showError)],
		["Delete…", () => remove([symbol]), "danger"],
	];

	// acceptDrops accepts files and tiles of other folders.
	function acceptDrops(node, target) {
		const on = (type, action) => node.addEventListener(type, (event) => {
			const to = target();
			if (to && (dragged ? dragged.some(({ folderId }) => folderId !== to.id) : event.dataTransfer.types.includes("Files"))) action(event, to);
		});
		on("dragover", (event) => {
			event.preventDefault();
			event.dataTransfer.dropEffect = dragged ? "move" : "copy";
			node.classList.add("over");
		});
		on("dragleave", (event) => node.contains(event.relatedTarget) || node.classList.remove("over"));
		on("drop", (event, to) => {
			node.classList.remove("over");
			if (dragged) move(dragged, to.id).catch(showError);
			else {
				const files = [...event.dataTransfer.files];
				const tile = event.target.closest(".tile");
				const onto = tile && files.length === 1 && isPicture(files[0]) && symbols.get(Number(tile.id.replace("tile-", "")));
				if (onto) replaceBy(onto, files[0]);
				else add(files, to);
			}
		});
	}

	// add adds pictures, a few hundred with each request, and imports libraries.
	async function add(files, to = folder) {
		const pictures = files.filter((file) => !isLibrary(file));
		const done = await each(banner, `Adding to ${to.name}`, uploads(pictures), async (upload, signal, progress) =>
			client("POST", `folders/${to.id}/import?skip=true`, { body: await zipOf(upload.files), signal, progress }), 1);
		const added = done.flatMap((one) => one.files);
		const left = done.flatMap((one) => [...one.skipped, ...one.ignored]);
		if (added.length) {
			await open(true);
			announce(`${plural(added.length, "symbol")} added to ${to.name}.`, async () => {
				await deleteAll("Undoing", added.map(({ symbolId, name }) => ({ id: symbolId, name })));
				await open(true);
			});
		}
		if (left.length) showProblem(banner, [h("strong", `Adding to ${to.name}: ${left.length} of ${pictures.length} left out`), h("ul", left.slice(0, 20).map(({ file, reason }) => h("li", h("b", file), `: ${reason}`)))]);
		else if (root.isConnected && added.length) focusFirst("add-images");
		for (const file of files.filter(isLibrary)) await importLibrary(to, file, () => load());
	}

	const updateAll = (title, list, fields) => inParts(banner, title, list, (ids) => client("PATCH", "symbols", { body: { ids, ...fields } }));
	const deleteAll = (title, list) => inParts(banner, title, list, (ids) => client("POST", "symbols/delete", { body: { ids } }));

	const replaceBy = (symbol, file) => replacePicture(symbol, file, {
		add: (one) => add([one]),
		async run(after, before) {
			const changed = await update(symbol, after);
			announce(`The picture of ${symbol.name} is replaced.`, () => update(changed, before));
		},
	}).catch(showError);

	// tagsField is a field for tags.
	const tagsField = (label, tags = []) =>
		field(label, h("input", { value: tags.join(", "), autocomplete: "off" }), "Separated by commas.");

	async function editTags(symbol) {
		try {
			const { tags } = await client("GET", `symbols/${symbol.id}?fields=tags`);
			const edited = tagsField("Tags", tags);
			await formDialog({ title: `Tags of ${symbol.name}`, submit: "Save", async run() {
				const changed = await update(symbol, { tags: listOf(edited.querySelector("input").value) });
				announce(`Tags of ${symbol.name} changed.`, () => update(changed, { tags }));
			} }, edited);
		} catch (error) {
			showError(error);
		}
	}

	function tagAll(list) {
		const [added, removed] = [tagsField("Add"), tagsField("Remove")];
		return formDialog({ title: `Tag ${plural(list.length, "symbol")}`, submit: "Save", async run() {
			const [addTags, removeTags] = [added, removed].map((one) => listOf(one.querySelector("input").value));
			const done = await updateAll("Tagging", list, { addTags, removeTags });
			announce(`Tags of ${plural(done.length, "symbol")} changed.`);
			await open(true);
		} }, added, removed);
	}

	// change changes a record if it is still as shown. It sends the ETag, so that
	// the server rejects the request if the record changes before it arrives. The
	// data of a symbol is not read.
	async function change(method, path, shown, body) {
		try {
			const symbol = "folderId" in shown;
			const response = await send(symbol ? "HEAD" : "GET", `symbol/${path}`, { key: "client" }).catch((error) => {
				if (symbol && error.status === 404) error.message = "no such symbol";
				throw error;
			});
			const [record] = symbol ? await client("GET", `folders/${shown.folderId}/symbols?${fields}&limit=1&after=${shown.id - 1}`) : [await response.json()];
			if (!record || ["name", "type", "folderId", "size"].some((name) => record[name] !== shown[name])) {
				const now = record && (record.name === shown.name ? "in another folder" : `now "${record.name}"`);
				Object.assign(shown, record); // the second attempt is meant
				throw new CanvasbackError(now ? `It is ${now}. Submit again to change that, or cancel to keep it` : "It is gone", { status: 412 });
			}
			const etag = response.headers.get("ETag");
			return await client(method, path, { headers: etag ? { "If-Match": etag } : {}, body });
		} catch (error) {
			if (error.status === 412 || error.status === 404) load();
			throw error;
		}
	}

	const update = async (symbol, body) => {
		const { data, ...record } = await change("PATCH", `symbols/${symbol.id}`, symbol, body);
		return replace({ ...record, size: new Blob([data]).size, updatedAt: Date.now() });
	};

	const rename = (symbol) => formDialog({ title: "Rename symbol", submit: "Rename", async run(name) {
		const renamed = await update(symbol, { name });
		announce(`${symbol.name} renamed.`, () => update(renamed, { name: symbol.name }));
	} }, nameField(symbol.name));

	const showError = (error) => showProblem(banner, errorContent(error));

	// replace adds or updates a symbol, or removes it if it has left the folder.
	function replace(symbol) {
		if (folder ? symbol.folderId === folder.id : symbols.has(symbol.id)) symbols.set(symbol.id, symbol);
		else if (symbols.has(symbol.id)) return drop([symbol]), symbol;
		if (viewer?.shown().id === symbol.id) viewer.show(symbol);
		render();
		return symbol;
	}

	function drop(list) {
		const ids = new Set(list.map(({ id }) => id));
		if (viewer && ids.has(viewer.shown().id)) {
			const at = found.findIndex(({ id }) => ids.has(id));
			const next = found[at + 1] ?? found[at - 1];
			if (next) viewer.show(next);
			else viewer.close();
		}
		for (const id of ids) symbols.delete(id);
		chosen.set([...chosen.ids].filter((id) => !ids.has(id)));
		render();
	}

	// move moves symbols and offers to undo that. The error of one is thrown.
	async function move(list, to) {
		const back = new Map(list.map(({ id, folderId }) => [id, folderId]));
		const apply = async (all, folderId) => {
			if (all.length === 1) return [await update(all[0], { folderId })];
			const moved = await updateAll("Moving", all, { folderId });
			return moved.map((one) => replace({ ...one, folderId }));
		};
		const done = await apply(list.filter(({ folderId }) => folderId !== to), to);
		if (done.length) announce(`${done.length === 1 ? done[0].name : plural(done.length, "symbol")} moved to ${named(to).name}.`, async () => {
			for (const [folderId, group] of Map.groupBy(done, ({ id }) => back.get(id))) await apply(group, folderId);
			await open(true);
		});
	}

	async function copy({ id }, to) {
		const { name, type, data } = await client("GET", `symbols/${id}`);
		await client("POST", `folders/${to}/symbols`, { body: { name, type, data } });
		announce(`${name} copied to ${named(to).name}.`);
	}

	// chooseFolder moves or copies symbols to a folder that the user chooses.
	function chooseFolder(symbols, verb) {
		const others = folders.filter(({ id }) => id !== folder?.id || verb === "Copy");
		if (!others.length) return announce("There is no other folder yet.");
		const to = h("select", { size: Math.min(8, Math.max(2, others.length)), required: true });
		const write = (text) => {
			fill(to, others.filter(({ name }) => name.toLowerCase().includes(text)).map(({ id, name }) => h("option", { value: String(id) }, name)));
			to.selectedIndex = 0;
		};
		write("");
		const what = symbols.length === 1 ? symbols[0].name : plural(symbols.length, "symbol");
		return formDialog({ title: `${verb} ${what}`, submit: verb, after: neighbor(symbols), run: () => (verb === "Move" ? move(symbols, Number(to.value)) : copy(symbols[0], Number(to.value))) },
			others.length > nextToMe && searchField("Find a folder", "Find a folder", ({ target }) => write(target.value.trim().toLowerCase())), field("To folder", to));
	}

	function remove(list) {
		const [one] = list;
		const what = list.length === 1 ? one.name : plural(list.length, "symbol");
		return formDialog({ title: `Delete ${what}?`, submit: list.length === 1 ? "Delete symbol" : `Delete ${what}`, danger: true, after: neighbor(list), async run() {
			if (list.length === 1) await change("DELETE", `symbols/${one.id}`, one);
			const done = list.length === 1 ? list : await deleteAll("Deleting", list);
			drop(done);
			if (done.length) announce(`${done.length === 1 ? done[0].name : plural(done.length, "symbol")} deleted.`, () => undelete(...done).then(() => open(true)));
		} }, h("p", toTrash));
	}

	// neighbor returns the id of the element to focus after symbols are removed.
	function neighbor(list) {
		const at = found.findIndex(({ id }) => id === list[0].id);
		const next = found.slice(at + 1).find((one) => !list.includes(one)) ?? found.slice(0, at).findLast((one) => !list.includes(one));
		return next ? `symbol-${next.id}` : "add-images";
	}

	async function createFolder() {
		const created = await formDialog({
			title: "New folder",
			submit: "Create folder",
			run: (name) => client("POST", "folders", { body: { name } }),
		}, nameField("", "Unique among folders."));
		if (!created) return;
		folders = [...folders, created].sort((a, b) => byName(a.name, b.name));
		location.hash = `#/symbols/${created.id}`;
	}

	const renameTo = async (shown, name) => {
		const updated = await change("PATCH", `folders/${shown.id}`, shown, { name });
		folders = folders.map((one) => (one.id === updated.id ? updated : one)).sort((a, b) => byName(a.name, b.name));
		if (folder?.id === updated.id) title.textContent = (folder = updated).name;
		renderFolders();
		return updated;
	};

	const renameFolder = () => formDialog({ title: "Rename folder", submit: "Rename", async run(name) {
		const { name: previous } = folder;
		const updated = await renameTo(folder, name);
		announce(`${previous} renamed.`, () => renameTo(updated, previous));
	} }, nameField(folder.name, "Unique among folders."));

	const exportFolder = (format) => download(banner, `Exporting ${folder.name}`, `${folder.name}.${format === "zip" ? "zip" : "xml"}`, `symbol/folders/${folder.id}/export?format=${format}`).catch(showError);

	async function deleteFolder() {
		const gone = folder;
		const { id, name } = folder;
		const all = symbols.size ? ` and ${complete ? plural(symbols.size, "symbol") : "its symbols"}` : "";
		const deleted = await formDialog({ title: `Delete ${name}?`, submit: `Delete folder${all}`, danger: true, run: () => change("DELETE", `folders/${id}`, folder) },
			h("p", all ? toTrash : `The folder is empty. ${toTrash}`));
		if (!deleted) return;
		folders = folders.filter((one) => one.id !== id);
		announce(`${name} deleted.`, () => undelete(gone).then(() => load()));
		history.replaceState(null, "", "#/symbols");
		await open(true);
		focusFirst("title");
	}

	return {
		open(rest, reload) {
			if (!rest[1] || rest[0] === "search") viewer?.close();
			if (folders && !reload) open();
			else load();
		},
		leave() {
			viewer?.close();
			// Images still loading would occupy the connections that the next screen needs.
			grid.drop((_, tile) => {
				const shown = tile.querySelector(".preview").firstChild;
				return shown && shown.complete !== false;
			});
		},
	};
}
