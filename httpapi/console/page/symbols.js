import { createActions, fileChooser, nextToMe } from "./actions.js";
import { call, followChanges, pages, send, writes } from "./api.js";
import { byId, fill, h, icon } from "./dom.js";
import { isRejected, loadFailed } from "./keyforms.js";
import { createLibrary, differ } from "./library.js";
import { state, watch } from "./state.js";
import { grounds, openSymbol } from "./symbol.js";
import { plural } from "./text.js";
import { createTiles } from "./tiles.js";
import { openTrash } from "./trash.js";
import { button, emptyState, endLoadProblem, errorState, focusFirst, heading, iconButton, menuButton, searchField, selection, showLoadProblem, skeleton } from "./ui.js";

const pause = 120; // ms between the last letter of a search and its request

export function symbolsScreen(root) {
	const library = createLibrary({ call, send, pages, writes }, undefined, () => root.isConnected && openFragment());
	const { folders, place, symbols, found, filter, more, outdated } = library;
	const banner = h("div");
	const chosen = selection("symbol", () => {
		tiles.select();
		chosen.count(found.value);
	});
	const actions = createActions(library, chosen, banner);
	const tiles = createTiles(library, chosen, actions);
	const ground = state(document.documentElement.dataset.plate);
	let previous; // the id of the folder that was open before a search
	let viewer; // the dialog of a symbol
	let before = []; // the symbols that were found before a change
	let stream = new AbortController(); // of changes
	let typing;

	const title = h("span", "Symbols");
	const summary = h("span");
	const filterField = searchField("Filter", "Filter by name or type", () => {
		filter.value = filterField.value;
		remember();
	});
	const query = searchField("Search all folders", "Search all folders", () => {
		clearTimeout(typing);
		const text = encodeURIComponent(query.value.trim());
		history.replaceState(null, "", text ? `#/symbols/search/${text}` : "#/symbols"); // at once, for a list that is read again meanwhile
		typing = setTimeout(() => open(text ? ["search", text] : []), pause);
	});
	const moreButton = button("Show more", { onclick: () => more.value() });
	const images = fileChooser("image/*,.svg", true, (files) => actions.add(files));
	const archive = fileChooser(".zip,.xml,.drawio,.json,application/zip", false, (files) => actions.add(files));
	const addImages = (id) => button("Add images", { kind: "main", symbol: "plus", id, onclick: () => images.click() });
	const newFolder = (kind, id) => button("New folder", { kind, symbol: "plus", id, onclick: actions.createFolder });
	const selectAll = () => chosen.set(found.value.map(({ id }) => id));
	const showChanges = button("Show changes", { kind: "small", onclick: () => load() });
	const tools = h("div.actions", { hidden: true }, showChanges, filterField,
		iconButton("reload", "Reload", { id: "reload", onclick: () => load().then(() => document.activeElement === document.body && focusFirst("reload")) }),
		menuButton("Folder actions", "folder-menu", () => [
			["Rename folder…", actions.renameFolder],
			["Import a zip or library…", () => archive.click()],
			["Export as zip", () => actions.exportFolder("zip")],
			["Export for draw.io", () => actions.exportFolder("drawio")],
			["Select all", selectAll],
			["Trash…", () => openTrash(library.named, load)],
			["Delete folder…", deleteFolder, "danger"],
		]),
		addImages("add-images"), images, archive);
	const body = h("div");
	chosen.offer(actions.bulk);
	const pane = h("section.pane", { "aria-labelledby": "title" }, chosen.node, banner, body, moreButton);
	const side = folderList(library, tiles, query, newFolder("quiet small", "new-folder"));
	root.append(heading(title, summary, tools), h("div.split", side.node, pane));
	tiles.acceptDrops(pane, () => place.value.folder);

	watch(() => (moreButton.hidden = !more.value));
	watch(() => (showChanges.hidden = !outdated.value));
	watch(() => {
		const { folder, text } = place.value;
		tools.hidden = !folder;
		title.textContent = folder?.name ?? (text ? "Search" : "Symbols");
	});
	watch(() => {
		const all = symbols.value;
		const part = all && found.value.length < all.size ? `${found.value.length.toLocaleString("en")} of ` : "";
		const rest = more.value ? ", more on request" : "";
		summary.textContent = all ? `${part}${plural(all.size, "symbol")}${rest}${outdated.value ? ", changed by others" : ""}` : "";
	});
	watch(() => symbols.value && showList());
	watch(() => {
		const all = symbols.value ?? new Map();
		const ids = [...chosen.ids];
		if (ids.some((id) => !all.has(id))) chosen.set(ids.filter((id) => all.has(id)));
		chosen.count(found.value);
	});
	watch(() => {
		const after = found.value;
		if (viewer && symbols.value) followViewer(after);
		before = after;
	});
	watch(() => {
		if (ground.value) document.documentElement.dataset.plate = ground.value;
	});

	function showList() {
		const { folder, text } = place.value;
		if (found.value.length) {
			if (!tiles.node.isConnected) fill(body, tiles.node);
			tiles.show();
		} else if (!folder) {
			fill(body, emptyState("folder", "No symbol matches", `No name contains “${text}”.`));
		} else if (!symbols.value.size) {
			const importButton = button("Import a zip or library", { onclick: () => archive.click() });
			fill(body, emptyState("folder", "This folder is empty", "Drop images or a zip here, or choose some.", addImages(), importButton));
		} else {
			fill(body, emptyState("folder", "No symbol matches", `No name or type in ${folder.name} contains “${filter.value.trim().toLowerCase()}”.`));
		}
	}

	// followViewer shows the open symbol as it is now, or the next one if it has gone.
	function followViewer(after) {
		const shown = viewer.shown();
		const now = symbols.value.get(shown.id);
		const at = before.findIndex(({ id }) => id === shown.id);
		const next = now ?? after[at] ?? after[at - 1];
		if (now ? differ(now, shown) || now.version !== shown.version : at >= 0 && next) viewer.show(next);
		else if (!now && at >= 0) viewer.close();
		viewer?.update();
	}

	// fragment returns the one of a place, or of a symbol, with what else is shown.
	function fragment(symbol) {
		const { folder, text } = place.value;
		const path = symbol ? `/${symbol.folderId}/${symbol.id}` : folder ? `/${folder.id}` : text ? `/search/${encodeURIComponent(text)}` : "";
		const values = Object.entries({ filter: filter.value, ground: ground.value }).filter(([, value]) => value);
		return `#/symbols${path}${values.length ? `?${new URLSearchParams(values)}` : ""}`;
	}

	function remember(symbol) {
		try {
			history.replaceState(null, "", fragment(symbol));
		} catch {
			// browsers limit the changes of the URL: Safari to 100 in 10 seconds
		}
	}

	async function load() {
		if (!folders.value) fill(body, skeleton("grid"));
		try {
			await library.load();
		} catch (error) {
			if (folders.value && !isRejected(error)) return reloadFailed(error);
			folders.value = symbols.value = undefined;
			tools.hidden = true;
			return loadFailed(body, "client", error, load);
		}
		if (!root.isConnected) return; // the user has left
		listen();
		await openFragment(true);
	}

	const reloadFailed = (error) => showLoadProblem(banner, error, load);

	// listen follows the changes by others while the screen is shown. Without them, it shows
	// what it has loaded.
	function listen() {
		stream.abort();
		stream = new AbortController();
		followChanges(library.notice, stream.signal, () => (outdated.value = true)).catch(() => {});
	}

	function openFragment(reload) {
		const [path, values] = location.hash.split("?");
		return open(path.split("/").slice(2), reload, new URLSearchParams(values));
	}

	// open shows what a fragment names: a folder, by default the first one, one of its
	// symbols, or a search.
	async function open([id, rest], reload, values = new URLSearchParams()) {
		ground.value = grounds.includes(values.get("ground")) ? values.get("ground") : ground.value;
		const text = id === "search" ? new URLSearchParams(`q=${rest}`).get("q") : "";
		if (!text && rest) show(Number(rest));
		if (!reload && !text && symbols.value?.has(Number(rest))) return;
		const named = id && id !== "search";
		const folder = text ? undefined : named ? library.named(Number(id)) : library.named(previous) ?? folders.value[0];
		const target = { folder, text };
		const again = library.isOpen(target);
		if (again && !reload) return;
		if (query.value.trim() !== text.trim()) query.value = text;
		previous = folder?.id ?? previous;
		if (!again && !(text && tiles.node.isConnected && place.value.text)) fill(body, skeleton("grid"));
		if (!again && root.isConnected) scrollTo(0, 0);
		const opening = library.open(target);
		if (!again) filter.value = values.get("filter") ?? "";
		filterField.value = filter.value;
		side.collapse();
		if (!again && ground.value && folder && !rest) remember();
		if (!folder && !text) return fill(body, named ? unknownFolder(id) : emptyState("folder", "No folders yet", "Create a folder and drop drawings into it.", newFolder("main")));
		try {
			await opening;
			endLoadProblem(banner);
		} catch (error) {
			if (again && !isRejected(error)) return reloadFailed(error);
			symbols.value = undefined;
			fill(body, errorState(error, load));
		}
	}

	const unknownFolder = (id) => emptyState("folder", `There is no folder ${id}`, "It may have been deleted, or belong to another library.",
		h("a.button", { href: folders.value.length ? `#/symbols/${folders.value[0].id}` : "#/symbols" }, "Open the first folder"));

	// show opens a symbol over the list. Closing it restores the URL of the list.
	async function show(id) {
		if (viewer?.shown().id === id) return;
		const [last, at] = [viewer, location.hash];
		viewer = undefined; // closing the last one keeps the URL
		last?.close();
		try {
			const symbol = symbols.value?.get(id) ?? await library.call("GET", `symbols/${id}?fields=id,name,type,folderId,size,updatedAt`);
			if (viewer || location.hash !== at) return; // the user has opened another one or left meanwhile
			const opened = viewer = openSymbol(symbol, {
				ground,
				list: () => found.value,
				moved: remember,
				closed() {
					if (viewer !== opened) return;
					tiles.reveal(viewer.shown());
					viewer = undefined;
					if (location.hash.split("/").length > 3 && location.hash.startsWith("#/symbols/")) remember();
				},
				actions: (one) => actions.entries(one).filter(([text]) => text !== "Download"),
				dropped: (one, files) => files.length === 1 && actions.replaceBy(one, files[0]),
			});
		} catch (error) {
			if (location.hash !== at) return;
			remember();
			actions.showError(error);
		}
	}

	async function deleteFolder() {
		if (!await actions.deleteFolder() || !root.isConnected) return;
		history.replaceState(null, "", "#/symbols");
		await openFragment();
		focusFirst("title");
	}

	return {
		open(rest, reload) {
			clearTimeout(typing);
			if (!rest[1] || rest[0] === "search") viewer?.close();
			if (!folders.value || reload) return load();
			listen();
			openFragment();
		},
		leave() {
			clearTimeout(typing);
			stream.abort();
			viewer?.close();
			tiles.leave();
		},
	};
}

// folderList shows the folders of a library.
function folderList(library, tiles, ...tools) {
	const { folders, place } = library;
	const filterField = searchField("Find a folder", "Find a folder", render);
	const list = h("ul", { onkeydown });
	const toggle = button("Folders", { kind: "small toggle", "aria-expanded": "false", onclick() {
		toggle.ariaExpanded = toggle.ariaExpanded !== "true";
		if (toggle.ariaExpanded === "true") filterField.focus();
	} });
	const [search, create] = tools;
	const node = h("nav.side", { "aria-label": "Folders" }, search, toggle, h("h2", "Folders"), create, filterField, list);
	watch(render);
	return { node, collapse: () => (toggle.ariaExpanded = false) };

	function render() {
		const { folder } = place.value;
		const text = filterField.value.trim().toLowerCase();
		const all = folders.value ?? [];
		const matches = all.filter(({ name }) => name.toLowerCase().includes(text));
		node.hidden = !folders.value;
		filterField.hidden = all.length <= nextToMe;
		toggle.textContent = folder ? `Folder: ${folder.name}` : "Folders";
		const stop = matches.find(({ id }) => id === folder?.id) ?? matches[0];
		fill(list, matches.map((one) => {
			const current = one.id === folder?.id && "page";
			const link = h("a", { href: `#/symbols/${one.id}`, id: `folder-${one.id}`, tabindex: one === stop ? 0 : -1, "aria-current": current }, icon("folder"), h("span", one.name));
			tiles.acceptDrops(link, () => one);
			return h("li", link);
		}), !matches.length && h("li.hint", "No folder matches."));
		const current = folder && byId(`folder-${folder.id}`)?.parentNode;
		if (current && list.scrollHeight > list.clientHeight) list.scrollTop = current.offsetTop - list.clientHeight / 2;
	}

	// onkeydown moves the focus in the list, which is one tab stop.
	function onkeydown(event) {
		const links = [...list.querySelectorAll("a")];
		const at = links.indexOf(event.target);
		const to = links[{ ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: links.length - 1 }[event.key]];
		if (!to) return;
		event.preventDefault();
		to.focus();
	}
}
