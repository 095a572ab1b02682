import assert from "node:assert/strict";
import { test } from "node:test";
import { CanvasbackError } from "../../client/client.js";
import { editor } from "../page/conflicts.js";
import { createLibrary } from "../page/library.js";
import { picturesIn } from "../page/pictures.js";
import { state, watch } from "../page/state.js";
import { localDay } from "../page/text.js";
import { zipOf } from "../page/zip.js";

// fakeAPI is an API with folders and symbols in memory, in pages of two.
class fakeAPI {
	folders = [{ id: 1, name: "Valves" }, { id: 2, name: "Pumps" }];
	symbols = ["Gate", "Ball", "Check"].map((name, i) => ({ id: i + 1, name, type: "image/svg+xml", folderId: 1, size: 3, updatedAt: "1", tags: [] }));
	requests = [];
	writes = { started: 0, finished: 0 };
	gate = Promise.resolve(); // before each page behind the first

	call = async (...request) => (await this.send(...request)).json();

	send = async (method, ...rest) => {
		const writing = method === "PATCH" || method === "DELETE";
		if (writing) this.writes.started++;
		try {
			return await this.respond(method, ...rest);
		} finally {
			if (writing) this.writes.finished++;
		}
	};

	respond = async (method, path, { headers = {}, body } = {}) => {
		this.requests.push(`${method} ${path}`);
		const [, kind, id] = /^symbol\/(\w+)\/(\d+)/.exec(path);
		const record = this[kind].find((one) => one.id === Number(id));
		if (!record) throw new CanvasbackError("gone", { status: 404 });
		const etag = () => JSON.stringify(record);
		if (headers["If-Match"] && headers["If-Match"] !== etag()) throw new CanvasbackError("changed", { status: 412 });
		if (method === "PATCH") Object.assign(record, body, { updatedAt: `${record.updatedAt}+` });
		if (method === "DELETE") this[kind] = this[kind].filter((one) => one !== record);
		return { json: async () => ({ ...record, data: "abc" }), headers: new Map([["ETag", etag()]]) };
	};

	pages = async function* (path) {
		this.requests.push(`PAGES ${path}`);
		const list = path.startsWith("symbol/folders?") ? this.folders
			: path.startsWith("symbol/search") ? this.symbols.filter(({ name }) => name.includes(/q=(\w+)/.exec(path)[1]))
				: this.symbols.filter(({ folderId }) => folderId === Number(/\d+/.exec(path)[0]));
		for (let i = 0; i === 0 || i < list.length; i += 2) {
			if (i) await this.gate;
			yield { records: list.slice(i, i + 2).map((one) => ({ ...one })), more: i + 2 < list.length };
		}
	}.bind(this);
}

// gated returns a loaded library. What it reads behind a first page comes when go is called.
async function gated() {
	const api = new fakeAPI();
	let go;
	api.gate = new Promise((resolve) => (go = resolve));
	const library = createLibrary(api, 1);
	await library.load();
	return { api, library, go };
}

async function openValves() {
	const api = new fakeAPI();
	const library = createLibrary(api, 1);
	await library.load();
	await library.open({ folder: library.named(1), text: "" });
	return { api, library };
}

const names = ({ value }) => [...value.values()].map(({ name }) => name);
const later = (milliseconds = 30) => new Promise((resolve) => setTimeout(resolve, milliseconds));

test("watchers run again after a change of what they have read", () => {
	const [a, b] = [state(1), state(1)];
	const seen = [];
	watch(() => seen.push(a.value === 2 ? b.value : 0));
	b.value = 5;
	a.value = 2;
	a.value = 2;
	b.value = 6;
	assert.deepEqual(seen, [0, 5, 6]);
});

test("a folder is read and filtered by words", async () => {
	const { library } = await openValves();
	assert.deepEqual(names(library.folders), ["Pumps", "Valves"]);
	assert.deepEqual(names(library.symbols), ["Gate", "Ball", "Check"]);
	assert.equal(library.complete.value, true);
	library.filter.value = "svg  LL";
	assert.deepEqual(names(library.found), ["Ball"]);
});

test("another folder replaces one that is still loading", async () => {
	const { api, library } = await openValves();
	let release;
	api.gate = new Promise((resolve) => (release = resolve));
	api.symbols[1].folderId = 2;
	const first = library.refresh();
	const second = library.open({ folder: library.named(2), text: "" });
	release();
	await Promise.all([first, second]);
	assert.deepEqual(names(library.symbols), ["Ball"]);
});

test("a search loads further pages on request", async () => {
	const { library } = await openValves();
	const searching = library.open({ text: "e" });
	await later();
	assert.deepEqual(names(library.symbols), ["Gate", "Check"]);
	assert.equal(library.more.value, undefined);
	await searching;
	const { api, library: other } = await openValves();
	api.symbols.push({ ...api.symbols[0], id: 9, name: "Globe" });
	other.open({ text: "e" });
	await later();
	assert.equal(other.symbols.value.size, 2);
	await other.update(other.found.value[0], { name: "Slide" });
	other.more.value();
	await later();
	assert.deepEqual(names(other.symbols), ["Slide", "Check", "Globe"]);
});

test("changes of this page while a folder is read stay", async () => {
	const { api, library, go } = await gated();
	const opening = library.open({ folder: library.named(1), text: "" });
	await later(); // the first page is read
	const [gate, ball] = library.found.value;
	await library.update(gate, { name: "Slide" });
	library.drop([ball]);
	go();
	await opening;
	assert.deepEqual(names(library.symbols), ["Slide", "Check"]);
});

test("a change of this page before a folder is read is not all of it", async () => {
	const { api, library } = await openValves();
	const { pages } = api;
	let go;
	const gate = new Promise((resolve) => (go = resolve));
	api.pages = async function* (path) {
		const list = [];
		for await (const page of pages(path)) list.push(page); // before the change
		await gate;
		yield* list;
	};
	api.symbols[1].folderId = 2;
	const gateValve = library.symbols.value.get(1);
	const opening = library.open({ folder: library.named(2), text: "" });
	await library.update(gateValve, { folderId: 2 });
	assert.equal(library.symbols.value, undefined);
	go();
	await opening;
	assert.deepEqual(names(library.symbols), ["Gate", "Ball"]);
});

test("records that have not changed stay", async () => {
	const { api, library } = await openValves();
	const [gate, ball] = library.found.value;
	api.symbols[1] = { ...api.symbols[1], name: "Globe", updatedAt: "2" };
	await library.refresh();
	assert.equal(library.symbols.value.get(gate.id), gate);
	assert.notEqual(library.symbols.value.get(ball.id), ball);
});

test("a conflict tells theirs and mine, and the second attempt is meant", async () => {
	const { api, library } = await openValves();
	const change = editor(library.symbols.value.get(1), library.update);
	api.symbols[0].name = "Slide";
	const error = await change({ name: "Mine" }).catch((thrown) => thrown);
	assert.equal(error.status, 412);
	assert.deepEqual(error.values[0], { name: "Name", theirs: "Slide", mine: "Mine" });
	api.symbols[0].name = "Third"; // between the dialog and the second attempt
	const again = await change({ name: "Mine" }).catch((thrown) => thrown);
	assert.equal(again.values[0].theirs, "Third");
	await change({ name: "Mine" });
	assert.equal(api.symbols[0].name, "Mine");
	assert.equal(library.symbols.value.get(1).name, "Mine");
	assert.equal(change.seen.name, "Third"); // to take the change back
});

test("a rename does not undo a move, and a change of a picture nothing of the same size", async () => {
	const { api, library } = await openValves();
	const seen = library.symbols.value.get(1);
	Object.assign(api.symbols[0], { folderId: 2, updatedAt: "2" });
	await library.update(seen, { name: "Mine" });
	assert.equal(api.symbols[0].folderId, 2);
	assert.deepEqual(names(library.symbols), ["Ball", "Check"]);
	api.symbols[1].updatedAt = "2";
	await assert.rejects(library.update(library.symbols.value.get(2), { data: "xyz" }), { status: 412 });
});

test("a change of what this page has changed needs one request", async () => {
	const { api, library } = await openValves();
	const renamed = await library.update(library.symbols.value.get(1), { name: "A" });
	api.requests.length = 0;
	await library.update(renamed, { name: "B" });
	assert.deepEqual(api.requests, ["PATCH symbol/symbols/1"]);
});

test("changes by others are noticed, those of this page are not", async () => {
	const { api, library } = await openValves();
	await library.update(library.symbols.value.get(1), { name: "Mine" });
	library.notice({ folders: true, folderIds: null });
	await later();
	assert.equal(library.outdated.value, false);
	api.symbols[1].name = "Theirs";
	library.notice({ folders: false, folderIds: [2] }); // not shown
	await later();
	assert.equal(library.outdated.value, false);
	api.writes.started++; // a request of this page
	library.notice({ folders: false, folderIds: [1] });
	await later();
	assert.equal(library.outdated.value, false);
	api.writes.finished++;
	await later();
	assert.equal(library.outdated.value, true);
	assert.deepEqual(names(library.symbols), ["Mine", "Ball", "Check"]); // nothing moves
	await library.reload();
	assert.equal(library.outdated.value, false);
	assert.deepEqual(names(library.symbols), ["Mine", "Theirs", "Check"]);
});

test("pictures are found in the files of an import", async () => {
	const content = async (pictures, name) => new Blob([await pictures.get(name)()]).text();
	const zip = await picturesIn(await zipOf([new File(["<svg/>"], "a.svg"), new File(["<svg>b</svg>"], "ä.svg")]));
	assert.deepEqual([...zip.keys()], ["a.svg", "ä.svg"]);
	assert.equal(await content(zip, "ä.svg"), "<svg>b</svg>");
	const drawio = await picturesIn(new Blob([`<mxlibrary>[{"title":"T","data":"data:image/png;base64,QUJD"},{"title":"X","xml":"y"}]</mxlibrary>`]));
	assert.deepEqual([...drawio.keys()], ["T"]);
	assert.equal(await content(drawio, "T"), "ABC");
	for (const text of [ // as this server writes it, as a title may be, and in CDATA
		`<mxlibrary>[{&#34;title&#34;:&#34;T &amp;amp; &lt;&#x41;&#34;,&#34;data&#34;:&#34;data:image/png;base64,QUJD&#34;}]</mxlibrary>\n`,
		`<mxlibrary title="[a]">[{"title":"T &amp;amp; <A","data":"data:image/png;base64,QUJD"}]</mxlibrary>`,
		`<mxlibrary><![CDATA[[{"title":"T &amp; <A","data":"data:image/png;base64,QUJD"}]]]></mxlibrary>`,
	]) {
		assert.equal(await content(await picturesIn(new Blob([text])), "T &amp; <A"), "ABC");
	}
	const iconify = await picturesIn(new Blob([`{"prefix":"p","width":24,"icons":{"i":{"body":"<path/>","height":8}}}`]));
	assert.match(await content(iconify, "i"), /viewBox="0 0 24 8"><path\/>/);
	assert.equal((await picturesIn(new Blob(["\x89PNG"]))).size, 0);
});

test("a change while a folder is read is noticed", async () => {
	const { api, library, go } = await gated();
	const opening = library.open({ folder: library.named(1), text: "" });
	await later(); // the first page is read
	api.symbols[0] = { ...api.symbols[0], name: "Gate 2", updatedAt: "2" }; // another process
	library.notice({ folders: false, folderIds: [1] });
	go();
	await opening;
	await later();
	assert.equal(library.symbols.value.get(1).name, "Gate"); // what is shown is old
	assert.equal(library.outdated.value, true);
});

test("a folder created before the stream is open is noticed", async () => {
	const { api, library, go } = await gated(); // symbols.js: load, listen, open
	api.folders = [...api.folders, { id: 2, name: "Pumps" }]; // another process
	const opening = library.open({ folder: library.named(1), text: "" });
	library.notice({ folders: true, folderIds: null }); // the notice at the beginning of a stream
	go();
	await opening;
	await later();
	assert.equal(library.outdated.value, true);
});

test("a change of search results with more pages is noticed", async () => {
	const api = new fakeAPI();
	const library = createLibrary(api, 1);
	api.symbols = api.symbols.map((one) => ({ ...one, name: `${one.name} a` }));
	await library.load();
	void library.open({ text: "a" });
	await later();
	assert.ok(library.more.value); // "Show more"
	api.symbols[0] = { ...api.symbols[0], name: "Gate 2 a", updatedAt: "2" };
	library.notice({ folders: false, folderIds: [1] });
	await later();
	assert.equal(library.outdated.value, true);
});

test("a change of folders is noticed while none is open, and after a failure", async () => {
	const api = new fakeAPI();
	const library = createLibrary(api, 1);
	await library.load();
	await library.open({ text: "" });
	api.folders = [...api.folders, { id: 3, name: "Tanks" }];
	library.notice({ folders: true, folderIds: [] });
	await later();
	assert.equal(library.outdated.value, true);
	await library.reload();
	assert.equal(library.outdated.value, false);
	const { pages } = api;
	api.pages = async function* () { throw new CanvasbackError("down", { status: 503 }); };
	await assert.rejects(library.open({ folder: library.named(1), text: "" }));
	api.pages = pages;
	api.folders = [{ id: 1, name: "Valves" }];
	library.notice({ folders: true, folderIds: [] });
	await later();
	assert.equal(library.outdated.value, true);
});

test("the last day of a key is right on the days around a change of the clocks", () => {
	const zone = process.env.TZ;
	try {
		for (process.env.TZ of ["Australia/Sydney", "Pacific/Auckland", "America/Santiago", "America/New_York", "Europe/Berlin", "UTC"])
			for (let day = 0; day < 400; day++) {
				const end = new Date(2026, 0, 2 + day); // of the day before
				const last = new Date(2026, 0, 1 + day, 12);
				const want = [last.getFullYear(), last.getMonth() + 1, last.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
				assert.equal(localDay(end - 1), want, process.env.TZ);
			}
	} finally {
		if (zone === undefined) delete process.env.TZ;
		else process.env.TZ = zone;
	}
});
