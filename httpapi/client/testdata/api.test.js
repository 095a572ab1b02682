// Calls a server through the client. CANVASBACK_URL and CANVASBACK_KEY are the URL of its
// API and a client key.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { CanvasbackError, createClient } from "./client.js";

const baseUrl = process.env.CANVASBACK_URL;
const key = process.env.CANVASBACK_KEY;
const operations = process.env.CANVASBACK_OPERATIONS.split(",");
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M0 5l60 30V5L0 35z"/></svg>`;
const source = "https://viewer.example/documents/17";

// recording returns a client and its requests, as method, path and status.
function recording(options) {
	const requests = [];
	const client = createClient({ baseUrl, key, ...options, async fetch(url, init) {
		const response = await fetch(url, init);
		requests.push(`${init.method} ${url.href.slice(baseUrl.length)} ${response.status}`);
		return response;
	} });
	return { client, requests };
}

const called = new Set();

// api is a client that notes the methods that were called.
const api = new Proxy(createClient({ baseUrl, key }), {
	get(target, name) {
		called.add(name);
		return target[name];
	},
});

after(() => assert.deepEqual(operations.filter((name) => !called.has(name)), []));

test("symbols", async () => {
	const folder = await api.createFolder({ name: "Valves" });
	assert.deepEqual(folder, { id: folder.id, name: "Valves" });
	assert.deepEqual(await api.getFolder(folder.id), folder);
	assert.deepEqual(await api.updateFolder(folder.id, { name: "Gate valves" }), { ...folder, name: "Gate valves" });
	assert.ok((await api.listFolders()).some(({ name }) => name === "Gate valves"));
	const symbol = await api.createSymbol(folder.id, { name: "Valve / 50 %", type: "image/svg+xml", data: svg });
	assert.deepEqual(await api.getSymbol(symbol.id), symbol);
	assert.deepEqual(await api.listSymbols(folder.id, { fields: "id,name" }), [{ id: symbol.id, name: "Valve / 50 %" }]);
	assert.deepEqual(await api.searchSymbols({ q: "/ 50 %", fields: "id", limit: undefined }), [{ id: symbol.id }]);
	assert.equal((await api.updateSymbol(symbol.id, { name: "Ventil \u00fc" })).name, "Ventil \u00fc");
	const image = await api.getSymbolImage(symbol.id);
	assert.equal(image.headers.get("Content-Type"), "image/svg+xml");
	assert.equal(await image.text(), svg);
	const stop = new AbortController();
	const events = (await api.streamChanges({ signal: stop.signal })).body.getReader();
	assert.match(new TextDecoder().decode((await events.read()).value), /^event: symbols\nid: .+\ndata: {"folders":true,"folderIds":null}\n\n$/);
	stop.abort();
	const zip = await api.exportFolder(folder.id);
	assert.equal(zip.headers.get("Content-Type"), "application/zip");
	const archive = await zip.arrayBuffer();
	assert.equal((await api.importSymbols(folder.id, archive, { dryRun: true })).dryRun, true);
	assert.equal((await api.importSymbols(folder.id, new Blob([archive]))).imported, 1);
	assert.deepEqual(await api.updateSymbols({ ids: [symbol.id], addTags: ["brass"] }), { updated: 1 });
	assert.ok((await api.deleteSymbol(symbol.id)).message);
	const [entry] = (await api.listTrash()).slice(-1);
	assert.equal((await api.restoreTrash(entry.id)).id, symbol.id);
	assert.deepEqual(await api.deleteSymbols({ ids: [symbol.id] }), { deleted: 1 });
	assert.ok((await api.deleteTrash((await api.listTrash()).at(-1).id)).message);
	assert.ok((await api.deleteFolder(folder.id)).message);
});

test("exports", async () => {
	assert.equal((await api.downloadExport({ sourceFileUrl: source }, { responseType: "urls" })).success, true);
	assert.equal(await (await api.downloadExport({ sourceFileUrl: source })).text(), "%PDF-1.7");
	const items = [{ sourceFileUrl: source }, { sourceFileUrl: "unknown" }];
	assert.equal((await api.downloadExportBatch({ items }, { responseType: "urls" })).skipped.length, 1);
	assert.equal((await api.downloadExportBatch({ items })).headers.get("Content-Type"), "application/zip");
	const relative = await api.createDownloadLink({ sourceFileUrl: source });
	assert.ok(relative.url.startsWith("links/"));
	const link = await api.download({ items });
	assert.ok(link.url.startsWith(`${baseUrl}/viewer/exports/links/`));
	assert.equal(link.skipped[0].sourceFileUrl, "unknown");
	assert.equal((await fetch(link.url)).status, 200);
	await assert.rejects(api.downloadExportBatch({ items: items.slice(1) }), (error) => error.status === 404 && error.body.skipped.length === 1);
});

test("registration", async () => {
	const registered = await api.registerExport({ sourceFileUrl: "other", exportedUrl: `${process.env.CANVASBACK_FILES}plan.pdf` });
	assert.equal(registered.record.sourceFileUrl, "other");
});

test("page tokens", async () => {
	const own = await api.getOwnKey();
	assert.equal(own.isToken, false);
	const { token, expiresAt } = await api.createToken({ scopes: ["symbols:read"], sources: [source] });
	const page = createClient({ baseUrl, token });
	assert.deepEqual(await page.getOwnKey(), { ...own, scopes: ["symbols:read"], sources: [source], expiresAt, isToken: true });
	await assert.rejects(page.createToken(), { status: 403, code: "forbidden" });
});

test("URLs of images", async () => {
	const { id: folderId } = await api.createFolder({ name: "URLs of images" });
	const { id } = await api.createSymbol(folderId, { name: "Valve", type: "image/svg+xml", data: svg });
	const { client, requests } = recording();
	for (const parameters of [{}, { v: "1" }]) {
		const url = await client.imageUrl(id, parameters);
		assert.ok(url.startsWith(baseUrl) && !url.includes(key));
		assert.equal(await (await fetch(url)).text(), svg);
	}
	assert.deepEqual(requests, ["POST /viewer/tokens 201"]);
	await api.deleteFolder(folderId);
});

test("tokens of getToken", async () => {
	const getToken = () => api.createToken({ scopes: ["symbols:read"] });
	const { client, requests } = recording({ key: undefined, getToken });
	await client.listFolders();
	await assert.rejects(client.createFolder({ name: "A" }), { status: 403, code: "forbidden" });
	assert.deepEqual(requests, ["GET /symbol/folders 200", "POST /symbol/folders 403", "POST /symbol/folders 403"]);
});

test("errors", async () => {
	await assert.rejects(api.getFolder(999), (error) => {
		assert.ok(error instanceof CanvasbackError && error instanceof Error);
		const { status, code, message, requestId, retryAfter } = error;
		assert.deepEqual({ status, code, message, retryAfter }, { status: 404, code: "not_found", message: "no such folder", retryAfter: null });
		assert.equal(requestId, error.response.headers.get("X-Request-Id"));
		return true;
	});
	await assert.rejects(api.createFolder({ name: "" }), { status: 400, code: "invalid_request" });
	await assert.rejects(createClient({ baseUrl, key: "wrong" }).listFolders(), { status: 401, code: "unauthorized" });
	await assert.rejects(createClient({ baseUrl: `${baseUrl}/client.js` }).listFolders(), { status: 404, code: "not_found" });
	await assert.rejects(createClient({ baseUrl: "http://127.0.0.1:1" }).listFolders(), { status: 0, code: null, requestId: null });
	for (const id of ["..", ".", ""]) await assert.rejects(api.getFolder(id), TypeError);
	await assert.rejects(api.getFolder("1/symbols"), { status: 400 }); // encoded
	await assert.rejects(api.request("GET", "https://other.example/"), TypeError); // would get the key
	await assert.rejects(api.listFolders({ signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("pages and conditional requests", async () => {
	const { client, requests } = recording();
	const { id } = await client.createFolder({ name: "Pages" });
	const created = [];
	for (const name of ["a", "b", "c", "d", "e"]) created.push(await client.createSymbol(id, { name, type: "text/plain", data: name }));
	requests.length = 0;
	const read = async (...args) => {
		const pages = [];
		for await (const page of client.pages(...args)) pages.push(page);
		return pages;
	};
	const pages = await read("listSymbols", id, { limit: 2, fields: "name" });
	assert.deepEqual(pages, [[{ name: "a" }, { name: "b" }], [{ name: "c" }, { name: "d" }], [{ name: "e" }]]);
	pages[0][0].name = "changed by the caller";
	assert.deepEqual((await read(client.listSymbols, id, { limit: 2, fields: "name" }))[0], [{ name: "a" }, { name: "b" }]);
	assert.deepEqual(requests.map((line) => line.split(" ").pop()), ["200", "200", "200", "304", "304", "304"]);
	assert.deepEqual(await read("searchSymbols", { q: "no such name" }), [[]]);
	const image = await client.createSymbol(id, { name: "image", type: "image/svg+xml", data: svg });
	requests.length = 0;
	for (const status of [200, 304, 304]) {
		const response = await client.getSymbolImage(image.id);
		assert.equal(await response.text(), svg);
		assert.equal(response.headers.get("Content-Type"), "image/svg+xml");
		assert.ok(requests.pop().endsWith(` ${status}`));
	}
	await client.updateSymbol(created[0].id, { name: "new" });
	assert.equal((await client.listSymbols(id, { limit: 1 }))[0].name, "new");
	await client.deleteFolder(id);
});

test("conditional changes", async () => {
	const folder = await api.createFolder({ name: "Conditional" });
	const etag = (await api.request("HEAD", `symbol/folders/${folder.id}`)).headers.get("ETag");
	await api.updateFolder(folder.id, { name: "Changed" });
	await assert.rejects(api.deleteFolder(folder.id, { headers: { "If-Match": etag } }), { status: 412, code: "precondition_failed" });
	await api.deleteFolder(folder.id);
});
