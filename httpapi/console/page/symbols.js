import { Failure, call, pages, send } from "./api.js";
import { byId, fill, h, icon } from "./dom.js";
import { download } from "./download.js";
import { plural } from "./format.js";
import { loadFailed } from "./keyform.js";
import { openSymbol, saveSymbol, tiles } from "./tiles.js";
import { announce, button, emptyState, errorContent, errorState, field, focusFirst, formDialog, heading, iconButton, menuButton, nameField, showProblem, skeleton } from "./ui.js";
import { addFiles, importFolder } from "./upload.js";

const client = (method, path, options) => call(method, `symbol/${path}`, { key: "client", ...options });

export function symbolsScreen(root, signal) {
	let folders; // undefined until loaded
	let folder; // the open folder, or undefined in a search
	const symbols = new Map(); // shown ones by id
	let loading = new AbortController();
	let closeSymbol = () => {};

	const title = h("span", "Symbols");
	const summary = h("span");
	const searchField = (placeholder, label, oninput) => h("input", { type: "search", placeholder, "aria-label": label, autocomplete: "off", oninput });
	const filter = searchField("Filter", "Filter by name or type", render);
	const query = searchField("Search all folders", "Search all folders", () => {
		history.replaceState(null, "", query.value ? `#/symbols/search/${encodeURIComponent(query.value)}` : "#/symbols");
		open();
	});
	const more = button("Show more", { onclick: () => showMore() });
	let showMore;
	const images = chooser("image/*,.svg", true, (files) => add(files));
	const archive = chooser(".zip,application/zip", false, ([file]) => importFolder(folder, file, () => open()));
	const addImages = (id) => button("Add images", { kind: "main", symbol: "plus", id, onclick: () => images.click() });
	const tools = h("div.actions", { hidden: true }, filter,
		iconButton("reload", "Reload", { id: "reload", onclick: () => load().then(() => focusFirst("reload")) }),
		menuButton("Folder actions", "folder-menu", () => [
			["Rename folder…", renameFolder],
			["Import a zip…", () => archive.click()],
			["Export as zip", exportFolder],
			["Delete folder…", deleteFolder, "danger"],
		]),
		addImages("add-images"), images, archive);
	const banner = h("div");
	const body = h("div");
	const pane = h("section.pane", { "aria-labelledby": "title" }, heading(title, summary, tools), banner, body, more);
	const list = h("ul");
	const side = h("nav.side", { "aria-label": "Folders", hidden: true }, query, h("h2", "Folders"), button("New folder", { kind: "quiet small", symbol: "plus", id: "new-folder", onclick: createFolder }), list);
	const grid = tiles(body, { rename, move, remove, download: (symbol) => saveSymbol(symbol).catch(showError), note: ({ folderId }) => !folder && folders.find(({ id }) => id === folderId)?.name });
	root.append(side, pane);
	acceptDrops(pane, () => folder);

	function chooser(accept, multiple, chosen) {
		return h("input", { type: "file", accept, multiple, hidden: true, onchange({ target }) {
			const files = [...target.files];
			target.value = "";
			chosen(files);
		} });
	}

	async function load() {
		fill(body, skeleton("grid"));
		try {
			folders = await client("GET", "folders", { signal });
		} catch (error) {
			if (signal.aborted) return;
			side.hidden = tools.hidden = true;
			return loadFailed(body, "client", error, load);
		}
		side.hidden = false;
		await open();
	}

	// open shows what the fragment names: a folder, by default the first one, one of
	// its symbols, or a search.
	async function open() {
		const [, , id, rest] = location.hash.split("/");
		loading.abort();
		loading = new AbortController();
		const either = AbortSignal.any([signal, loading.signal]);
		query.value = id === "search" ? new URLSearchParams(`q=${rest}`).get("q") : "";
		folder = query.value ? undefined : folders.find((one) => one.id === Number(id)) ?? folders[0];
		renderFolders();
		tools.hidden = !folder;
		more.hidden = true;
		title.textContent = folder?.name ?? (query.value ? "Search" : "Symbols");
		summary.textContent = filter.value = "";
		if (!folder && !query.value) return fill(body, emptyState("folder", "No folders yet", "Create a folder and drop drawings into it.", button("New folder", { kind: "main", symbol: "plus", onclick: createFolder })));
		fill(body, skeleton("grid"));
		symbols.clear();
		try {
			await read(folder ? `folders/${folder.id}/symbols?limit=1000` : `search?q=${encodeURIComponent(query.value)}`, either);
			if (folder && rest) show(Number(rest));
		} catch (error) {
			if (!either.aborted) fill(body, errorState(error, load));
		}
	}

	// read shows the pages of a list: all of a folder, those of a search on request.
	async function read(path, signal) {
		for await (const page of pages(`symbol/${path}&fields=id,name,type,folderId,size`, { key: "client", signal })) {
			const first = !symbols.size;
			const added = page.records.filter(({ id }) => !symbols.has(id)); // uploads may be known
			for (const one of added) symbols.set(one.id, one);
			if (first || filter.value) render();
			else added.forEach(grid.add), count();
			more.hidden = Boolean(folder) || !page.more;
			if (!more.hidden) await new Promise((resolve) => (showMore = resolve));
		}
	}

	function renderFolders() {
		const { id } = document.activeElement;
		fill(list, folders.map((one) => {
			const link = h("a", { href: `#/symbols/${one.id}`, id: `folder-${one.id}`, "aria-current": one === folder && "page" }, icon("folder"), h("span", one.name));
			acceptDrops(link, () => one);
			return h("li", link);
		}));
		byId(id)?.focus();
	}

	// show opens a symbol. Closing it restores the URL of the folder.
	function show(id) {
		const symbol = symbols.get(id);
		const { hash } = location;
		const back = () => location.hash === hash && history.replaceState(null, "", `#/symbols/${folder.id}`);
		if (symbol) closeSymbol = openSymbol(symbol, back).close;
		else back();
	}

	function render() {
		const text = filter.value.trim().toLowerCase();
		const found = [...symbols.values()].filter(({ name, type }) => `${name} ${type}`.toLowerCase().includes(text));
		count(found.length);
		if (found.length) grid.show(found);
		else if (!folder) fill(body, emptyState("folder", "No symbol matches", `No name contains “${query.value}”.`));
		else if (!symbols.size) fill(body, emptyState("folder", "This folder is empty", "Drop images here, or choose some.", addImages()));
		else fill(body, emptyState("folder", "No symbol matches", `No name or type in ${folder.name} contains “${text}”.`));
	}

	function count(found = symbols.size) {
		summary.textContent = `${found < symbols.size ? `${found} of ` : ""}${plural(symbols.size, "symbol")}`;
	}

	// acceptDrops accepts files and tiles of other folders.
	function acceptDrops(node, target) {
		const on = (type, action) => node.addEventListener(type, (event) => {
			const { dragged } = grid;
			const accepted = dragged ? dragged.folderId !== target()?.id : event.dataTransfer.types.includes("Files");
			if (target() && accepted) action(event, dragged);
		});
		on("dragover", (event, dragged) => {
			event.preventDefault();
			event.dataTransfer.dropEffect = dragged ? "move" : "copy";
			node.classList.add("over");
		});
		on("dragleave", (event) => node.contains(event.relatedTarget) || node.classList.remove("over"));
		on("drop", (event, dragged) => {
			node.classList.remove("over");
			if (dragged) drop(dragged, target());
			else add([...event.dataTransfer.files], target());
		});
	}

	const add = (files, to = folder) => addFiles(to, files, banner, signal, (symbol) => {
		if (symbol.folderId !== folder?.id || symbols.has(symbol.id)) return;
		symbols.set(symbol.id, symbol);
		if (symbols.size === 1 || filter.value) return render();
		grid.add(symbol);
		count();
	});

	// change changes a record if it is still as shown. It sends the ETag, so that
	// the server rejects the request if the record changes before it arrives.
	async function change(method, path, shown, fields) {
		try {
			const response = await send("GET", `symbol/${path}`, { key: "client" });
			const record = await response.json();
			record.size = new Blob([record.data]).size;
			if (Object.keys(shown).some((name) => record[name] !== shown[name])) throw new Failure(412, "The view has been reloaded. Check it and retry");
			const etag = response.headers.get("ETag");
			return await client(method, path, { headers: etag ? { "If-Match": etag } : {}, body: fields });
		} catch (error) {
			if (error.status === 412 || error.status === 404) load();
			throw error;
		}
	}

	function rename(symbol) {
		return formDialog({
			title: "Rename symbol",
			submit: "Rename",
			run: async (name) => replace(await change("PATCH", `symbols/${symbol.id}`, symbol, { name })),
		}, nameField(symbol.name));
	}

	const showError = (error) => showProblem(banner, errorContent(error));

	// replace updates a symbol, or removes it if it has left the folder.
	function replace(symbol) {
		if (folder && symbol.folderId !== folder.id) return dropSymbol(symbol);
		symbols.set(symbol.id, symbol);
		grid.replace(symbol);
	}

	function dropSymbol({ id }) {
		symbols.delete(id);
		if (!symbols.size || filter.value) return render();
		grid.remove(id);
		count();
	}

	async function moveTo(symbol, id) {
		replace(await change("PATCH", `symbols/${symbol.id}`, symbol, { folderId: id }));
		announce(`${symbol.name} moved to ${folders.find((one) => one.id === id).name}.`);
	}

	const drop = (symbol, to) => moveTo(symbol, to.id).catch(showError);

	function move(symbol) {
		const others = folders.filter(({ id }) => id !== symbol.folderId);
		if (!others.length) return announce("There is no other folder yet.");
		const to = h("select", others.map(({ id, name }) => h("option", { value: String(id) }, name)));
		return formDialog({ title: `Move ${symbol.name}`, submit: "Move", after: neighbor(symbol), run: () => moveTo(symbol, Number(to.value)) }, field("To folder", to));
	}

	function remove(symbol) {
		return formDialog({ title: `Delete ${symbol.name}?`, submit: "Delete symbol", danger: true, after: neighbor(symbol), async run() {
			await change("DELETE", `symbols/${symbol.id}`, symbol);
			dropSymbol(symbol);
			announce(`${symbol.name} deleted.`);
		} }, h("p", "The symbol is deleted permanently."));
	}

	// neighbor returns the id of the element to focus after a symbol is removed.
	function neighbor(symbol) {
		const ids = [...symbols.keys()];
		const at = ids.indexOf(symbol.id);
		const next = ids[at + 1] ?? ids[at - 1];
		return next ? `symbol-${next}` : "add-images";
	}

	async function createFolder() {
		const created = await formDialog({
			title: "New folder",
			submit: "Create folder",
			run: (name) => client("POST", "folders", { body: { name } }),
		}, nameField("", "Unique among folders."));
		if (!created) return;
		folders.push(created);
		location.hash = `#/symbols/${created.id}`;
	}

	function renameFolder() {
		return formDialog({ title: "Rename folder", submit: "Rename", async run(name) {
			const updated = await change("PATCH", `folders/${folder.id}`, folder, { name });
			folders = folders.map((one) => (one.id === updated.id ? updated : one));
			folder = updated;
			title.textContent = updated.name;
			renderFolders();
		} }, nameField(folder.name, "Unique among folders."));
	}

	const exportFolder = () => download(banner, `Exporting ${folder.name}`, `${folder.name}.zip`, signal, "GET", `symbol/folders/${folder.id}/export`).catch(showError);

	async function deleteFolder() {
		const { id, name } = folder;
		const all = symbols.size ? ` and ${plural(symbols.size, "symbol")}` : "";
		const deleted = await formDialog({ title: `Delete ${name}?`, submit: `Delete folder${all}`, danger: true, run: () => change("DELETE", `folders/${id}`, folder) },
			h("p", all ? `The folder${all} are deleted permanently. Export it first to keep a copy.` : "The folder is empty. It is deleted permanently."));
		if (!deleted) return;
		folders = folders.filter((one) => one.id !== id);
		announce(`${name} deleted.`);
		history.replaceState(null, "", "#/symbols");
		await open();
		focusFirst("title");
	}

	signal.addEventListener("abort", () => closeSymbol());
	return ([id, symbol]) => {
		closeSymbol();
		if (!folders) load();
		else if (Number(id) === folder?.id && symbol) show(Number(symbol));
		else open();
	};
}
