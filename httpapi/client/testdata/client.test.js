// Tests what a server cannot be made to do: tokens, retries, cancellation, changes.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { createClient } from "./client.js";

const token = (n) => `cbt_payload${n}.signature`;
const later = (seconds) => new Date(Date.now() + seconds * 1000).toISOString();

// serve starts a server whose responses respond gives as {status, headers, body}. It
// returns its URL and requests.
async function serve(t, respond) {
	const requests = [];
	const server = createServer(async (request, response) => {
		const url = new URL(request.url, "http://server");
		const chunks = [];
		for await (const chunk of request) chunks.push(chunk);
		requests.push({
			method: request.method, path: url.pathname, query: Object.fromEntries(url.searchParams),
			headers: request.headers, body: Buffer.concat(chunks).toString(),
		});
		const { status = 200, headers = {}, body = "[]", stream } = await respond(requests.at(-1), requests.length) ?? {};
		response.writeHead(status, { "Content-Type": "application/json", ...headers });
		if (stream) stream(response);
		else response.end(body);
	}).listen(0, "127.0.0.1");
	await once(server, "listening");
	t.after(() => {
		server.closeAllConnections();
		server.close();
	});
	return { baseUrl: `http://127.0.0.1:${server.address().port}/api/`, requests };
}

// counted returns getToken, which makes a new token each time, and its calls.
function counted(expiresAt = () => later(3600)) {
	const calls = [];
	return { calls, async getToken() {
		calls.push(token(calls.length));
		await new Promise((resolve) => setTimeout(resolve, 5));
		return { token: calls.at(-1), expiresAt: expiresAt() };
	} };
}

test("a token is kept, and shared by concurrent requests", async (t) => {
	const { baseUrl, requests } = await serve(t, () => {});
	const { calls, getToken } = counted();
	const client = createClient({ baseUrl, getToken });
	await Promise.all([client.listFolders(), client.getFolder(1), client.createFolder({ name: "A" })]);
	await client.listFolders();
	assert.equal(calls.length, 1);
	assert.ok(requests.every(({ headers }) => headers["x-api-key"] === token(0)));
});

test("a token is replaced 30 seconds before it expires", async (t) => {
	const { baseUrl } = await serve(t, () => {});
	for (const [seconds, count] of [[29, 2], [31, 1], [-1, 2], [-86400, 1]]) {
		const { calls, getToken } = counted(() => later(seconds));
		const client = createClient({ baseUrl, getToken });
		await client.listFolders();
		await client.listFolders();
		assert.equal(calls.length, count);
	}
});

for (const status of [401, 403]) {
	test(`a token is replaced once after ${status}`, async (t) => {
		const rejected = new Set([token(0)]);
		const { baseUrl, requests } = await serve(t, ({ headers }) => rejected.has(headers["x-api-key"]) && { status, body: `{"code":"x","message":"no"}` });
		const { calls, getToken } = counted();
		const client = createClient({ baseUrl, getToken });
		await Promise.all([client.listFolders(), client.createFolder({ name: "A" }), client.deleteFolder(1)]);
		assert.equal(calls.length, 2);
		assert.equal(requests.length, 6);
		assert.equal(requests.filter(({ body }) => body === `{"name":"A"}`).length, 2);
		for (let i = 0; i < 4; i++) rejected.add(token(i));
		requests.length = 0;
		await assert.rejects(client.listFolders(), { status });
		assert.equal(requests.length, 2);
	});
}

test("a key and a token are not replaced", async (t) => {
	const { baseUrl, requests } = await serve(t, () => ({ status: 401, body: "{}" }));
	await assert.rejects(createClient({ baseUrl, key: "k" }).listFolders(), { status: 401, code: null });
	await assert.rejects(createClient({ baseUrl, token: "t" }).listFolders(), { status: 401 });
	assert.deepEqual(requests.map(({ headers }) => headers["x-api-key"]), ["k", "t"]);
});

test("getToken may return a response", async (t) => {
	const { baseUrl, requests } = await serve(t, ({ path }) => {
		if (path === "/denied") return { status: 403, body: JSON.stringify({ message: "not logged in", code: "forbidden" }) };
		if (path === "/page") return { headers: { "Content-Type": "text/html" }, body: "<h1>Log in</h1>" };
		if (path === "/token") return { body: JSON.stringify({ token: token(7), expiresAt: later(3600) }) };
	});
	await createClient({ baseUrl, getToken: () => fetch(new URL("/token", baseUrl)) }).listFolders();
	assert.equal(requests.at(-1).headers["x-api-key"], token(7));
	const denied = createClient({ baseUrl, getToken: () => fetch(new URL("/denied", baseUrl)) });
	await assert.rejects(denied.listFolders(), { name: "CanvasbackError", status: 403, code: "forbidden", message: "not logged in" });
	const page = createClient({ baseUrl, getToken: () => fetch(new URL("/page", baseUrl)) });
	await assert.rejects(page.listFolders(), { name: "CanvasbackError", status: 200, message: /not JSON/ });
});

test("a client from a file needs a URL", () => {
	assert.throws(() => createClient(), /baseUrl must be the URL of the API, not file:/);
});

test("an imported file has its name", async (t) => {
	const { baseUrl, requests } = await serve(t, () => ({ body: "{}" }));
	const client = createClient({ baseUrl });
	await client.importSymbols(1, new File(["<svg/>"], "Pump.svg"));
	await client.importSymbols(1, new File(["<svg/>"], "Pump.svg"), { name: "Valve" });
	await client.importSymbols(1, new Blob(["<svg/>"]));
	assert.deepEqual(requests.map(({ query }) => query.name), ["Pump", "Valve", undefined]);
});

test("a credential of another type is an error that names it", async (t) => {
	const { baseUrl, requests } = await serve(t, () => ({}));
	const once = new Response('{"token":"t","expiresAt":0}');
	await once.text();
	for (const [options, message] of [
		[{ token: { token: "t" } }, "key and token must be strings"],
		[{ key: () => "k" }, "key and token must be strings"],
		[{ getToken: "t" }, "getToken is not a function"],
		[{ getToken: () => once }, "getToken returned a response that has been read"],
	]) await assert.rejects(createClient({ baseUrl, ...options }).listFolders(), { name: "TypeError", message });
	assert.equal(requests.length, 0);
});

test("the error of getToken is thrown, and it is called again", async (t) => {
	const { baseUrl, requests } = await serve(t, () => {});
	let fails = true;
	const client = createClient({ baseUrl, getToken() {
		if (fails) throw new Error("logged out");
		return token(1);
	} });
	await assert.rejects(client.listFolders(), { message: "logged out" });
	fails = false;
	await client.listFolders();
	assert.equal(requests.length, 1);
	for (const none of [undefined, null, {}, { message: "logged out" }, 7, "", { token: "" }]) {
		await assert.rejects(createClient({ baseUrl, getToken: () => none }).listFolders(), TypeError);
	}
	assert.equal(requests.length, 1);
});

test("only GETs are repeated, and only with Retry-After", async (t) => {
	const { baseUrl, requests } = await serve(t, (_, count) => count < 4 && { status: 503, headers: { "Retry-After": "0" }, body: "{}" });
	const client = createClient({ baseUrl });
	await client.listFolders();
	assert.equal(requests.length, 4);
	for (const [headers, retryAfter] of [[{ "Retry-After": "0" }, 0], [{}, null], [{ "Retry-After": "soon" }, null], [{ "Retry-After": "61" }, 61]]) {
		const unavailable = await serve(t, () => ({ status: 429, headers, body: `{"code":"too_many_requests","message":"slow","requestId":"r"}` }));
		const expected = { status: 429, code: "too_many_requests", message: "slow", requestId: "r", retryAfter };
		await assert.rejects(createClient(unavailable).listFolders(), expected);
		assert.equal(unavailable.requests.length, retryAfter === 0 ? 10 : 1);
		unavailable.requests.length = 0;
		await assert.rejects(createClient(unavailable).createFolder({}), expected);
		assert.equal(unavailable.requests.length, 1);
	}
	const dated = await serve(t, () => ({ status: 503, headers: { "Retry-After": new Date(Date.now() + 100_000).toUTCString() }, body: "<html>" }));
	await assert.rejects(createClient(dated).listFolders(), ({ retryAfter, code, message }) => retryAfter > 90 && retryAfter <= 101
		&& code === null && message === "The response has status 503");
});

test("a GET is not repeated if maxWait is 0", async (t) => {
	t.mock.timers.enable({ apis: ["Date"] }); // a fast server
	const { baseUrl, requests } = await serve(t, () => ({ status: 503, headers: { "Retry-After": "0" }, body: "{}" }));
	await assert.rejects(createClient({ baseUrl, maxWait: 0 }).listFolders(), { status: 503 });
	assert.equal(requests.length, 1);
});

test("a signal ends a call while it waits", { timeout: 20_000 }, async (t) => {
	const reason = new Error("closed");
	const slow = await serve(t, () => new Promise(() => {}));
	const busy = await serve(t, () => ({ status: 503, headers: { "Retry-After": "50" } }));
	const partial = await serve(t, () => ({ stream: (response) => response.write("[") }));
	const silent = { ...slow, getToken: () => new Promise(() => {}) };
	for (const options of [slow, busy, partial, silent]) {
		const stop = new AbortController();
		const call = createClient(options).listFolders({ signal: stop.signal });
		setTimeout(() => stop.abort(reason), 50);
		await assert.rejects(call, (error) => error === reason || error.name === "AbortError");
	}
});

test("a truncated or foreign response is an error", async (t) => {
	const truncated = await serve(t, () => ({ headers: { "Content-Length": "100" }, stream: (response) => response.write("[", () => response.destroy()) }));
	await assert.rejects(createClient(truncated).listFolders(), { name: "CanvasbackError", status: 0 });
	const foreign = await serve(t, () => ({ headers: { "Content-Type": "text/html" }, body: "<html>" }));
	await assert.rejects(createClient(foreign).listFolders(), { name: "CanvasbackError", status: 200 });
});

test("the cache is bounded", async (t) => {
	const body = JSON.stringify(["x".repeat(1e6)]);
	const { baseUrl, requests } = await serve(t, ({ path, headers }) => (headers["if-none-match"] ? { status: 304 } : { body, headers: { ETag: `"${path}"` } }));
	const client = createClient({ baseUrl });
	for (let id = 1; id <= 17; id++) await client.getFolder(id);
	await client.getFolder(17);
	await client.getFolder(3);
	await client.getFolder(1);
	assert.deepEqual(requests.slice(17).map(({ headers }) => headers["if-none-match"]), [`"/api/symbol/folders/17"`, `"/api/symbol/folders/3"`, undefined]);
});

test("a raw key makes a page token for URLs", async (t) => {
	let made = 0;
	const { baseUrl, requests } = await serve(t, () => ({ status: 201, body: JSON.stringify({ token: token(++made), expiresAt: later(3600) }) }));
	const client = createClient({ baseUrl, key: "cbk_secret" });
	const urls = await Promise.all([client.imageUrl(1), client.imageUrl(2, { v: "a b" })]);
	assert.deepEqual(urls, [`${baseUrl}symbol/symbols/1/image?token=${token(1)}`, `${baseUrl}symbol/symbols/2/image?v=a+b&token=${token(1)}`]);
	assert.deepEqual(requests.map(({ method, path, body, headers }) => [method, path, body, headers["x-api-key"]]),
		[["POST", "/api/viewer/tokens", `{"scopes":["symbols:read"]}`, "cbk_secret"]]);
	assert.equal(await createClient({ baseUrl, token: token(7) }).imageUrl(1), `${baseUrl}symbol/symbols/1/image?token=${token(7)}`);
	assert.equal(await createClient({ baseUrl }).imageUrl(1), `${baseUrl}symbol/symbols/1/image`); // open routes
	for (const raw of ["cbk_secret", "sk.live", "a b_t.c"]) {
		await assert.rejects(createClient({ baseUrl, token: raw }).imageUrl(1), TypeError);
		await assert.rejects(createClient({ baseUrl, getToken: () => raw }).changes(() => {}), TypeError);
	}
});

const event = (id, data) => `event: symbols\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
const all = { folders: true, folderIds: null };

// until resolves when a condition holds.
async function until(condition) {
	while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

test("changes are followed over several streams", { timeout: 20_000 }, async (t) => {
	const streams = [];
	const { baseUrl, requests } = await serve(t, () => ({ headers: { "Content-Type": "text/event-stream" }, stream(response) {
		streams.push(response);
		response.write(": hello\n\nretry: 1\n\n");
		if (streams.length === 1) response.write(event("first", all));
	} }));
	const { calls, getToken } = counted();
	const got = [];
	const { close } = await createClient({ baseUrl, getToken }).changes((change) => got.push(change));
	await until(() => got.length === 1);
	const second = event("second", { folders: false, folderIds: [7] });
	for (const character of second.replaceAll("\n", "\r\n")) streams[0].write(character);
	await until(() => got.length === 2);
	streams[0].write("event: other\ndata: {}\n\n");
	streams[0].write(`id: third\nevent: symbols\ndata: {"folders":`); // incomplete
	streams[0].end();
	await until(() => streams.length === 2);
	streams[1].destroy();
	await until(() => streams.length === 3);
	streams[2].write(event("fourth", { folders: true, folderIds: [] }));
	await until(() => got.length === 3);
	assert.deepEqual(got, [all, { folders: false, folderIds: [7] }, { folders: true, folderIds: [] }]);
	assert.deepEqual(requests.map(({ query }) => query.lastEventId), [undefined, "second", "second"]);
	assert.ok(requests.every(({ query, headers }) => query.token === token(0) && !headers["x-api-key"] && headers.accept === "text/event-stream"));
	assert.equal(calls.length, 1);
	const closed = once(streams[2], "close");
	close();
	await closed;
	assert.equal(streams.length, 3);
});

const streamed = (body) => new Response(body, { headers: { "Content-Type": "text/event-stream" } });

test("lines of a stream may end in CRLF, which may be divided", { timeout: 20_000 }, async (t) => {
	const parts = [...event("1", all).replaceAll("\n", "\r\n")];
	const body = new ReadableStream({ async pull(stream) {
		await new Promise((resolve) => setImmediate(resolve));
		if (parts.length) stream.enqueue(new TextEncoder().encode(parts.shift()));
		else await new Promise(() => {});
	} });
	const stop = new AbortController();
	const change = await new Promise((resolve, reject) => {
		createClient({ baseUrl: "http://server/api/", fetch: async () => streamed(body) }).changes(resolve, { signal: stop.signal, onerror: reject }).catch(reject);
		setTimeout(reject, 2000, new Error("no change")).unref();
	});
	stop.abort();
	assert.deepEqual(change, all);
});

test("changes reject a response that is not an event stream", async () => {
	const fetch = async () => new Response("retry: 1\n\n<html>", { headers: { "Content-Type": "text/html" } });
	await assert.rejects(createClient({ baseUrl: "http://server/api/", fetch }).changes(() => {}), /not an event stream/);
});

test("a listener that ends the stream is not called again", async (t) => {
	const { baseUrl } = await serve(t, () => ({ headers: { "Content-Type": "text/event-stream" }, stream: (response) => response.write(event("1", all) + event("2", all)) }));
	const stop = new AbortController();
	let count = 0;
	await createClient({ baseUrl }).changes(() => {
		count++;
		stop.abort();
	}, { signal: stop.signal });
	await until(() => count);
	await new Promise((resolve) => setTimeout(resolve, 50));
	assert.equal(count, 1);
});

test("changes go on after errors, with a new token", { timeout: 20_000 }, async (t) => {
	const statuses = [200, 503, 401, 200, 403, 200, 403, 403];
	const { baseUrl, requests } = await serve(t, (_, count) => {
		const status = statuses[count - 1];
		if (status !== 200) return { status, body: "{}" };
		return { headers: { "Content-Type": "text/event-stream" }, stream: (response) => response.end("retry: 1\n\n") };
	});
	const { calls, getToken } = counted();
	let failure;
	await createClient({ baseUrl, getToken }).changes(() => {}, { onerror: (error) => (failure = error) });
	await until(() => failure);
	assert.equal(failure.status, 403);
	assert.equal(requests.length, statuses.length);
	assert.equal(calls.length, 4);
});

// usePage defines a document until the end of a test.
function usePage(t, properties) {
	globalThis.document = Object.assign(new EventTarget(), properties);
	t.after(() => delete globalThis.document);
	return globalThis.document;
}

test("a hidden tab has no stream", { timeout: 20_000 }, async (t) => {
	const page = usePage(t, { hidden: true });
	const show = (on) => {
		page.hidden = !on;
		page.dispatchEvent(new Event("visibilitychange"));
	};
	const streams = [];
	const { baseUrl, requests } = await serve(t, () => ({ headers: { "Content-Type": "text/event-stream" }, stream(response) {
		streams.push(response);
		response.write(event(streams.length, all));
	} }));
	const got = [];
	const { close } = await createClient({ baseUrl }).changes((change) => got.push(change));
	assert.equal(requests.length, 0);
	for (const count of [1, 2]) {
		show(true);
		await until(() => got.length === count);
		const closed = once(streams.at(-1), "close");
		show(false);
		await closed;
	}
	show(true);
	await until(() => got.length === 3);
	close();
	assert.deepEqual(requests.map(({ query }) => query.lastEventId), [undefined, "1", "2"]);
});

test("a page downloads, and has relative URLs", async (t) => {
	const { baseUrl, requests } = await serve(t, () => ({ status: 201, body: `{"url":"links/t/plan.pdf","fileName":"plan.pdf"}` }));
	const [clicked, framed] = [[], []];
	const page = usePage(t, {
		baseURI: `${baseUrl}../viewer/page.html`,
		location: new URL(baseUrl),
		createElement: (tag) => ({ tag, click() {
			clicked.push([tag, this.href, this.download]);
		} }),
		body: { append: ({ tag, src, hidden }) => framed.push([tag, src, hidden]) },
	});
	const client = createClient({ baseUrl: "../api" });
	const url = `${baseUrl}viewer/exports/links/t/plan.pdf`;
	assert.equal((await client.download({ sourceFileUrl: "a" })).url, url);
	await client.download({ sourceFileUrl: "a" }, { fileName: "other.pdf" });
	assert.deepEqual(clicked, [["a", url, "plan.pdf"], ["a", url, "other.pdf"]]);
	assert.deepEqual(framed, []);
	assert.deepEqual(requests.map(({ body }) => body), [`{"sourceFileUrl":"a"}`, `{"fileName":"other.pdf","sourceFileUrl":"a"}`]);
	page.location = new URL("https://viewer.example/");
	await client.download({ sourceFileUrl: "a" });
	assert.deepEqual([clicked.length, framed], [2, [["iframe", url, true]]]);
});

test("changes reject if the first connection fails", async (t) => {
	const { baseUrl } = await serve(t, () => ({ status: 403, body: `{"code":"forbidden","message":"no"}` }));
	await assert.rejects(createClient({ baseUrl, token: token(1) }).changes(() => {}), { status: 403, code: "forbidden" });
	await assert.rejects(createClient({ baseUrl: "http://127.0.0.1:1" }).changes(() => {}), { status: 0 });
	await assert.rejects(createClient({ baseUrl }).changes(() => {}, { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("a signal closes the stream", { timeout: 20_000 }, async (t) => {
	let stream;
	const { baseUrl } = await serve(t, () => ({ headers: { "Content-Type": "text/event-stream" }, stream(response) {
		stream = response;
		response.write(event("1", all));
	} }));
	const stop = new AbortController();
	await createClient({ baseUrl }).changes(() => {}, { signal: stop.signal, onerror: assert.fail });
	const closed = once(stream, "close");
	stop.abort();
	await closed;
});

test("a URL of the API may end in a slash or not, and methods need no this", async (t) => {
	const { baseUrl, requests } = await serve(t, () => {});
	for (const one of [baseUrl, baseUrl.slice(0, -1), new URL(baseUrl)]) {
		const { listFolders, pages } = createClient({ baseUrl: one });
		await listFolders();
		for await (const page of pages(listFolders)) assert.deepEqual(page, []);
	}
	assert.deepEqual([...new Set(requests.map(({ path }) => path))], ["/api/symbol/folders"]);
});

test("a partial response is not kept as the complete one", async (t) => {
	const { baseUrl } = await serve(t, ({ headers }) => {
		if (headers["if-none-match"]) return { status: 304, body: "" };
		return headers.range ? { status: 206, headers: { ETag: '"1"', "Content-Range": "bytes 0-3/10" }, body: "0123" } : { headers: { ETag: '"1"' }, body: "0123456789" };
	});
	const client = createClient({ baseUrl });
	const part = await client.request("GET", "file", { headers: { Range: "bytes=0-3" } });
	assert.equal(part.status, 206);
	assert.equal(await part.text(), "0123");
	assert.equal(await (await client.request("GET", "file")).text(), "0123456789");
});

test("an abort while the body of an error is read is an abort", async (t) => {
	const stop = new AbortController();
	const { baseUrl } = await serve(t, () => ({ status: 500, stream: (response) => {
		response.write("{");
		setTimeout(() => stop.abort(), 50);
	} }));
	await assert.rejects(createClient({ baseUrl }).listFolders({ signal: stop.signal }), { name: "AbortError" });
});

test("an aborted call leaves no unhandled rejection", () => {
	const script = `
		import { createClient } from ${JSON.stringify(new URL("./client.js", import.meta.url).href)};
		const client = createClient({ baseUrl: "http://127.0.0.1:9/api/", getToken: async () => { throw new Error("login expired"); } });
		await client.listFolders({ signal: AbortSignal.abort() }).catch(() => {});
		await new Promise((resolve) => setTimeout(resolve, 50));
	`;
	execFileSync(process.execPath, ["--input-type=module", "-e", script], { stdio: "pipe" });
});

// A stream whose response never comes, or that is silent from the beginning, is replaced.
for (const [name, silent] of Object.entries({
	"a stream without a response": ({ signal }) => new Promise((resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
	"a silent stream": async ({ signal }) => streamed(new ReadableStream({ start: (stream) => signal.addEventListener("abort", () => stream.error(signal.reason)) })),
})) test(`${name} is replaced`, async (t) => {
	t.mock.timers.enable({ apis: ["setTimeout"] });
	let count = 0;
	const fetch = async (url, init) => {
		count++;
		return count === 1 ? streamed("retry: 1000\n\n") : silent(init);
	};
	const stop = new AbortController();
	await createClient({ baseUrl: "http://server/api/", fetch }).changes(() => {}, { signal: stop.signal });
	for (let i = 0; i < 600; i++) { // seconds
		t.mock.timers.tick(1000);
		await new Promise((resolve) => setImmediate(resolve));
	}
	stop.abort();
	assert.ok(count > 2, `${count} connections in ten minutes`);
});

test("changes reject if the first response never comes", async (t) => {
	t.mock.timers.enable({ apis: ["setTimeout"] });
	const fetch = (url, { signal }) => new Promise((resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
	const rejected = assert.rejects(createClient({ baseUrl: "http://server/api/", fetch }).changes(() => {}), { name: "CanvasbackError" });
	await new Promise((resolve) => setImmediate(resolve));
	t.mock.timers.tick(120_000);
	await rejected;
});

test("a large file is not held in memory", { timeout: 20_000 }, async (t) => {
	const headers = { "ETag": `"1"`, "Content-Length": "20000000" };
	const { baseUrl } = await serve(t, () => ({ headers, stream: (response) => response.write("the beginning") }));
	const { body } = await createClient({ baseUrl }).request("GET", "viewer/exports/links/t/plan.pdf");
	const reader = body.getReader();
	assert.equal(new TextDecoder().decode((await reader.read()).value), "the beginning");
	await reader.cancel();
});
