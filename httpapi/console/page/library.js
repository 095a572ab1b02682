// The library of symbols: what is open of it, and changes of it. It has states that views
// watch, and no elements.

import { unlessChanged } from "./conflicts.js";
import { state, watch } from "./state.js";
import { byName } from "./text.js";

const fields = "id,name,type,folderId,size,updatedAt";

const wordsOf = (text) => text.trim().toLowerCase().split(/\s+/);

// differ reports whether two records, one of which may lack a time, are not the same.
export const differ = (a, b) => ["name", "type", "folderId", "size"].some((name) => a[name] !== b[name]) ||
	(a.updatedAt && b.updatedAt && a.updatedAt !== b.updatedAt);

// createLibrary returns a library without folders. api has call, send and pages, which
// send requests, and writes, how many changing ones were started and finished. delay is
// the time in milliseconds from a change by others to its request. gone is called when the open
// folder does not exist any more.
export function createLibrary(api, delay = 400, gone = () => {}) {
	const folders = state(); // by name; undefined until loaded
	const place = state({}); // {folder} or {text}, whose symbols are shown
	const symbols = state(); // of the place, by id; undefined until loaded
	const complete = state(false); // whether all symbols are loaded
	const more = state(); // a function that loads the next page of a search
	const filter = state("");
	const found = state([]); // the symbols that match the filter
	const outdated = state(false); // whether others have changed what is shown
	let loading = new AbortController();
	let reading; // the signal of what is being read
	let checking;

	watch(() => {
		const words = wordsOf(filter.value);
		const matches = ({ name, type }) => words.every((word) => `${name} ${type}`.toLowerCase().includes(word));
		found.value = [...(symbols.value ?? new Map()).values()].filter(matches);
	});

	const call = (method, path, options) => api.call(method, `symbol/${path}`, { key: "client", ...options });
	const send = (method, path, options) => api.send(method, `symbol/${path}`, { key: "client", ...options });
	const pages = (path, options) => api.pages(`symbol/${path}`, { key: "client", ...options });
	const named = (id) => folders.value.find((one) => one.id === id);
	const sorted = (list) => [...list].sort((a, b) => byName(a.name, b.name));
	const contents = ({ folder, text }, limit = "") => (folder
		? `folders/${folder.id}/symbols?limit=1000&fields=${fields}`
		: `search?q=${encodeURIComponent(text)}&fields=${fields}${limit}`);

	async function readFolders() {
		const list = [];
		for await (const { records } of pages("folders?limit=1000")) list.push(...records);
		return sorted(list);
	}

	const isOpen = ({ folder, text }) => Boolean(symbols.value) && folder?.id === place.value.folder?.id && text === place.value.text;

	// open shows a folder or the results of a search. Those that are shown stay until all
	// are read again. It ends without an error if another place is opened meanwhile.
	async function open(target) {
		loading.abort();
		loading = new AbortController();
		const { signal } = loading;
		const again = isOpen(target);
		if (!again) {
			symbols.value = undefined;
			filter.value = "";
		}
		place.value = target;
		complete.value = false;
		more.value = undefined;
		reading = target.folder || target.text ? signal : undefined;
		if (!reading) return;
		try {
			await read(target, signal, again);
		} catch (error) {
			if (!signal.aborted) throw error;
		} finally {
			if (reading === signal) reading = undefined;
		}
	}

	// read reads all pages of a folder, those of a search on request.
	async function read(target, signal, again) {
		const latest = new Map();
		const { finished } = api.writes;
		for await (const page of pages(contents(target), { signal })) {
			if (signal.aborted) return;
			for (const one of page.records) latest.set(one.id, known(one));
			if (again && target.folder && page.more) continue;
			if ((again || !symbols.value) && finished !== api.writes.finished) return read(target, signal, again); // it may be from before the change
			symbols.value = new Map([...(again ? [] : symbols.value ?? []), ...latest]);
			again = false;
			latest.clear(); // what is shown may change before the next page
			complete.value = !page.more;
			outdated.value = false;
			if (!page.more || target.folder) continue;
			await new Promise((resolve) => (more.value = resolve));
			more.value = undefined;
		}
	}

	// known returns the record that is shown if it is still the same, so that views keep it.
	function known(record) {
		const shown = symbols.value?.get(record.id);
		if (!shown || differ(shown, record)) return record;
		shown.updatedAt ??= record.updatedAt;
		return shown;
	}

	const pathOf = (record) => ("folderId" in record ? `symbols/${record.id}` : `folders/${record.id}`);

	// stored returns a record as it is stored, without the data of a symbol, and its ETag.
	async function stored(record) {
		const isSymbol = "folderId" in record;
		let failed;
		const response = await send(isSymbol ? "HEAD" : "GET", pathOf(record)).catch((error) => (failed = error));
		if (failed && !isSymbol) throw failed;
		const now = isSymbol ? await call("GET", `${pathOf(record)}?fields=${fields},tags`) : await response.json();
		if (failed) throw failed; // GET has a message, which HEAD has not
		return { ...now, etag: response.headers.get("ETag") };
	}

	// valuesOf lists a stored symbol or folder beside a change of it.
	function valuesOf(now, body) {
		const show = {
			name: (name) => ["Name", name],
			folderId: (id) => ["Folder", named(id)?.name ?? `Folder ${id}`],
			tags: (tags) => ["Tags", tags.join(", ") || "None"],
			size: (size) => ["Picture", `${size} bytes of data`],
		};
		const mine = body && { ...now, ...body, ...(body.data && { size: body.data.length }) };
		return Object.keys(show).filter((name) => name in now).map((name) => {
			const [label, theirs] = show[name](now[name]);
			return { name: label, theirs, mine: mine && show[name](mine[name])[1] };
		});
	}

	// isChanged reports whether a change would undo that of someone else.
	function isChanged(now, seen, body) {
		if (!body || body.data) return seen.etag ? now.etag !== seen.etag : differ(now, seen);
		return Object.keys(body).some((name) => name in seen && JSON.stringify(now[name]) !== JSON.stringify(seen[name]));
	}

	// change changes a record if it is still as seen, and returns the response. Without a
	// body, it deletes the record.
	async function change(seen, body) {
		try {
			return await unlessChanged(seen, {
				stored: () => stored(seen),
				isChanged: (now) => isChanged(now, seen, body),
				values: (now) => valuesOf(now, body),
				request: (headers) => send(body ? "PATCH" : "DELETE", pathOf(seen), { headers, body }),
			});
		} catch (error) {
			if (error.status === 412 || error.status === 404) reload().catch(() => {}); // what is shown is old
			throw error;
		}
	}

	// refresh reads again what is shown, reload the folders too.
	const refresh = () => open(place.value);

	async function reload() {
		folders.value = await readFolders();
		outdated.value = false;
		const { folder, text } = place.value;
		await open({ folder: folder && named(folder.id), text });
		if (folder && !place.value.folder) gone();
	}

	// update changes a symbol, and shows and returns it.
	async function update(seen, body) {
		const response = await change(seen, body);
		const { data, ...record } = await response.json();
		const size = new TextEncoder().encode(data).length;
		const changed = { ...record, size, etag: response.headers.get("ETag"), version: Date.now() };
		if ("tags" in seen || body.tags) changed.tags = body.tags ?? seen.tags;
		show(changed);
		return changed;
	}

	// show adds or replaces symbols that belong to the place, and removes the others. Those
	// of a place that is being opened are read again.
	function show(...list) {
		if (!symbols.value) return;
		const all = new Map(symbols.value);
		const { folder } = place.value;
		for (const one of list) {
			if (folder ? one.folderId === folder.id : all.has(one.id)) all.set(one.id, one);
			else all.delete(one.id);
		}
		symbols.value = all;
	}

	function drop(list) {
		if (!symbols.value) return;
		const all = new Map(symbols.value);
		for (const { id } of list) all.delete(id);
		symbols.value = all;
	}

	async function updateFolder(seen, body) {
		const response = await change(seen, body);
		const changed = { ...await response.json(), etag: response.headers.get("ETag") };
		folders.value = sorted(folders.value.map((one) => (one.id === changed.id ? changed : one)));
		if (place.value.folder?.id === changed.id) place.value = { folder: changed };
		return changed;
	}

	async function createFolder(name) {
		const created = await call("POST", "folders", { body: { name } });
		folders.value = sorted([...folders.value.filter(({ id }) => id !== created.id), created]); // it may have been read meanwhile
		return created;
	}

	async function deleteFolder(seen) {
		await change(seen);
		folders.value = folders.value.filter(({ id }) => id !== seen.id);
	}

	// notice is called when others may have changed folders, all if folderIds is null.
	function notice({ folders: list, folderIds }) {
		const { folder } = place.value;
		if (!symbols.value && !folders.value || !(list || !folder || !folderIds || folderIds.includes(folder.id))) return;
		checking ??= setTimeout(check, delay);
	}

	// check compares what is shown with what is stored, and waits until this page itself
	// changes and reads nothing.
	async function check() {
		const { started, finished } = api.writes;
		const at = place.value;
		let different;
		checking = undefined;
		if (started > finished || (reading && !more.value)) return notice({ folders: true });
		try {
			const latest = await readFolders();
			different = latest.length !== folders.value.length || latest.some(({ id, name }) => named(id)?.name !== name);
			if (!different && symbols.value) different = await isStale(at);
		} catch {
			different = false; // the next request of the user tells
		}
		if (api.writes.started > finished) return notice({ folders: true });
		if (at === place.value && different) outdated.value = true;
	}

	async function isStale(at) {
		const limit = at.text ? `&limit=${Math.min(1000, Math.max(100, symbols.value.size))}` : "";
		let count = 0;
		for await (const { records } of pages(contents(at, limit))) {
			for (const one of records) {
				const shown = symbols.value?.get(one.id);
				if (!shown || differ(shown, one)) return true;
				count++;
			}
			if (at.text) break;
		}
		return count !== symbols.value?.size;
	}

	return {
		folders, place, symbols, complete, more, filter, found, outdated,
		call, send, named, open, isOpen, refresh, reload, update, change, show, drop, updateFolder, createFolder, deleteFolder, notice,

		async load() {
			folders.value = await readFolders();
		},
	};
}
