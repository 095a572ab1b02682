import { addFiles, importFolder } from "./upload.js";
import { Failure, call, send } from "./api.js";
import { byId, fill, h, icon } from "./dom.js";
import { download } from "./download.js";
import { plural } from "./format.js";
import { gate } from "./keyform.js";
import { openSymbol, tiles } from "./tiles.js";
import { ask, button, explained, failed, field, head, iconButton, menuButton, nameField, nothing, refocus, say, skeleton, trouble } from "./ui.js";

const client = (method, path, options) => call(method, `symbol/${path}`, { key: "client", ...options });

export function symbolsScreen(root, signal) {
	let folders; // undefined until they have been read
	let folder; // the open one
	let symbols = []; // those in it
	let reading = new AbortController();
	let hide = () => {}; // the symbol that is shown

	const title = h("span", "Symbols");
	const summary = h("span");
	const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter by name or type", autocomplete: "off", oninput: paint });
	const images = chooser("image/*,.svg", true, (files) => add(files));
	const archive = chooser(".zip,application/zip", false, ([file]) => importFolder(folder, file, () => open()));
	const addImages = (id) => button("Add images", { kind: "main", symbol: "plus", id, onclick: () => images.click() });
	const tools = h("div.actions", { hidden: true }, filter,
		iconButton("reload", "Reload", { id: "reload", onclick: () => load(folder?.id).then(() => refocus("reload")) }),
		menuButton("Folder actions", "folder-menu", () => [
			["Rename folder…", renameFolder],
			["Import a zip…", () => archive.click()],
			["Export as zip", exportFolder],
			["Delete folder…", deleteFolder, "danger"],
		]),
		addImages("add-images"), images, archive);
	const strip = h("div");
	const body = h("div");
	const pane = h("section.pane", { "aria-labelledby": "title" }, head(title, summary, tools), strip, body);
	const list = h("ul");
	const side = h("nav.side", { "aria-label": "Folders", hidden: true }, h("h2", "Folders"), button("New folder", { kind: "quiet small", symbol: "plus", id: "new-folder", onclick: createFolder }), list);
	const grid = tiles(body, { rename, move, remove });
	root.append(side, pane);
	acceptDrops(pane, () => folder);

	function chooser(accept, multiple, chosen) {
		return h("input", { type: "file", accept, multiple, hidden: true, onchange({ target }) {
			const files = [...target.files];
			target.value = "";
			chosen(files);
		} });
	}

	async function load(id, symbol) {
		fill(body, skeleton("grid"));
		try {
			folders = await client("GET", "folders", { signal });
		} catch (error) {
			if (signal.aborted) return;
			side.hidden = tools.hidden = true;
			return gate(body, "client", error, () => load(id, symbol));
		}
		side.hidden = false;
		await open(id, symbol);
	}

	// open shows a folder, or the first one if there is none of the id.
	async function open(id = folder?.id, symbol) {
		reading.abort();
		reading = new AbortController();
		const mine = AbortSignal.any([signal, reading.signal]);
		folder = folders.find((one) => one.id === id) ?? folders[0];
		paintFolders();
		tools.hidden = !folder;
		title.textContent = folder?.name ?? "Symbols";
		summary.textContent = filter.value = "";
		if (!folder) return fill(body, nothing("folder", "No folders yet", "Symbols live in folders. Make one, and drop drawings into it.", button("New folder", { kind: "main", symbol: "plus", onclick: createFolder })));
		fill(body, skeleton("grid"));
		try {
			symbols = await client("GET", `folders/${folder.id}/symbols`, { signal: mine });
			paint();
			if (symbol) show(symbol);
		} catch (error) {
			if (!mine.aborted) fill(body, failed(error, () => load(folder.id)));
		}
	}

	function paintFolders() {
		const { id } = document.activeElement;
		fill(list, folders.map((one) => {
			const link = h("a", { href: `#/symbols/${one.id}`, id: `folder-${one.id}`, "aria-current": one === folder && "page" }, icon("folder"), h("span", one.name));
			acceptDrops(link, () => one);
			return h("li", link);
		}));
		byId(id)?.focus();
	}

	// show opens a symbol, whose address is that of its folder again afterwards.
	function show(id) {
		const symbol = symbols.find((one) => one.id === id);
		const { hash } = location;
		const back = () => location.hash === hash && history.replaceState(null, "", `#/symbols/${folder.id}`);
		if (symbol) hide = openSymbol(symbol, back).close;
		else back();
	}

	function paint() {
		const wanted = filter.value.trim().toLowerCase();
		const found = symbols.filter(({ name, type }) => `${name} ${type}`.toLowerCase().includes(wanted));
		count(found.length);
		if (found.length) grid.show(found);
		else if (!symbols.length) fill(body, nothing("folder", "This folder is empty", "Drop images here, or choose some.", addImages()));
		else fill(body, nothing("folder", "No symbol matches", `Nothing in ${folder.name} has “${wanted}” in its name or type.`));
	}

	function count(found = symbols.length) {
		summary.textContent = `${found < symbols.length ? `${found} of ` : ""}${plural(symbols.length, "symbol")}`;
	}

	// acceptDrops lets files, and tiles of other folders, be dropped.
	function acceptDrops(node, target) {
		const on = (type, action) => node.addEventListener(type, (event) => {
			const { dragged } = grid;
			const welcome = dragged ? dragged.folderId !== target()?.id : event.dataTransfer.types.includes("Files");
			if (target() && welcome) action(event, dragged);
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

	const add = (files, to = folder) => addFiles(to, files, strip, signal, (symbol) => {
		if (symbol.folderId !== folder?.id || symbols.some(({ id }) => id === symbol.id)) return;
		symbols.push(symbol);
		if (symbols.length === 1 || filter.value) return paint();
		grid.add(symbol);
		count();
	});

	// change does something to a record that is still what the reader sees, and
	// has the server refuse if it becomes another. Of one that is not the reader
	// is told, and sees it as it is.
	async function change(method, path, seen, fields) {
		try {
			const response = await send("GET", `symbol/${path}`, { key: "client" });
			const record = await response.json();
			if (Object.keys(record).some((name) => record[name] !== seen[name])) throw new Failure(412, "What is shown has been read again. Look at it before you go on");
			const etag = response.headers.get("ETag");
			return await client(method, path, { headers: etag ? { "If-Match": etag } : {}, body: fields });
		} catch (error) {
			if (error.status === 412 || error.status === 404) load(folder.id);
			throw error;
		}
	}

	function rename(symbol) {
		return ask({
			title: "Rename symbol",
			submit: "Rename",
			run: async (name) => replace(await change("PATCH", `symbols/${symbol.id}`, symbol, { name })),
		}, nameField(symbol.name));
	}

	const blame = (error) => trouble(strip, explained(error));

	// replace shows a symbol as it is now, or no more if it has left the folder.
	function replace(symbol) {
		if (symbol.folderId !== folder.id) return gone(symbol);
		symbols = symbols.map((one) => (one.id === symbol.id ? symbol : one));
		grid.replace(symbol);
	}

	function gone({ id }) {
		symbols = symbols.filter((one) => one.id !== id);
		if (!symbols.length || filter.value) return paint();
		grid.remove(id);
		count();
	}

	async function moveTo(symbol, id) {
		replace(await change("PATCH", `symbols/${symbol.id}`, symbol, { folderId: id }));
		say(`${symbol.name} moved to ${folders.find((one) => one.id === id).name}.`);
	}

	const drop = (symbol, to) => moveTo(symbol, to.id).catch(blame);

	function move(symbol) {
		const others = folders.filter(({ id }) => id !== symbol.folderId);
		if (!others.length) return say("There is no other folder yet.");
		const to = h("select", others.map(({ id, name }) => h("option", { value: String(id) }, name)));
		return ask({ title: `Move ${symbol.name}`, submit: "Move", after: beside(symbol), run: () => moveTo(symbol, Number(to.value)) }, field("To folder", to));
	}

	function remove(symbol) {
		return ask({ title: `Delete ${symbol.name}?`, submit: "Delete symbol", danger: true, after: beside(symbol), async run() {
			await change("DELETE", `symbols/${symbol.id}`, symbol);
			gone(symbol);
			say(`${symbol.name} deleted.`);
		} }, h("p", "It leaves the library at once and does not come back."));
	}

	// beside is what gets the focus when a symbol is gone.
	function beside(symbol) {
		const at = symbols.indexOf(symbol);
		const next = symbols[at + 1] ?? symbols[at - 1];
		return next ? `symbol-${next.id}` : "add-images";
	}

	async function createFolder() {
		const made = await ask({
			title: "New folder",
			submit: "Create folder",
			run: (name) => client("POST", "folders", { body: { name } }),
		}, nameField("", "No other folder may have it."));
		if (!made) return;
		folders.push(made);
		location.hash = `#/symbols/${made.id}`;
	}

	function renameFolder() {
		return ask({ title: "Rename folder", submit: "Rename", async run(name) {
			const made = await change("PATCH", `folders/${folder.id}`, folder, { name });
			folders = folders.map((one) => (one.id === made.id ? made : one));
			folder = made;
			title.textContent = made.name;
			paintFolders();
		} }, nameField(folder.name, "No other folder may have it."));
	}

	const exportFolder = () => download(strip, `Exporting ${folder.name}`, `${folder.name}.zip`, signal, "GET", `symbol/folders/${folder.id}/export`).catch(blame);

	async function deleteFolder() {
		const { id, name } = folder;
		const all = symbols.length ? ` and ${plural(symbols.length, "symbol")}` : "";
		const done = await ask({ title: `Delete ${name}?`, submit: `Delete folder${all}`, danger: true, run: () => change("DELETE", `folders/${id}`, folder) },
			h("p", all ? `The folder${all} are deleted for good. Export it first to keep a copy.` : "The folder is empty. It is deleted for good."));
		if (!done) return;
		folders = folders.filter((one) => one.id !== id);
		say(`${name} deleted.`);
		history.replaceState(null, "", "#/symbols");
		await open();
		refocus("title");
	}

	signal.addEventListener("abort", () => hide());
	return ([id, symbol]) => {
		hide();
		if (!folders) load(Number(id), Number(symbol));
		else if (Number(id) === folder?.id && symbol) show(Number(symbol));
		else open(Number(id), Number(symbol));
	};
}
