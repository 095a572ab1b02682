// A client of the Canvasback API for browsers and Node.js 18 or later, without
// dependencies. client.d.ts documents it.

// operations are the operations that take x-api-key: method, path, and what is not JSON,
// the body of an upload or the response of a file.
const operations = {
	createToken: ["POST", "viewer/tokens", "json"],
	getOwnKey: ["GET", "viewer/key", "json"],
	registerExport: ["POST", "viewer/exports/register", "json"],
	downloadExport: ["POST", "viewer/exports/download", "file"],
	downloadExportBatch: ["POST", "viewer/exports/download-batch", "file"],
	createDownloadLink: ["POST", "viewer/exports/links", "json"],
	listFolders: ["GET", "symbol/folders", "json"],
	createFolder: ["POST", "symbol/folders", "json"],
	getFolder: ["GET", "symbol/folders/{id}", "json"],
	updateFolder: ["PATCH", "symbol/folders/{id}", "json"],
	deleteFolder: ["DELETE", "symbol/folders/{id}", "json"],
	listSymbols: ["GET", "symbol/folders/{folderId}/symbols", "json"],
	createSymbol: ["POST", "symbol/folders/{folderId}/symbols", "json"],
	exportFolder: ["GET", "symbol/folders/{id}/export", "file"],
	importSymbols: ["POST", "symbol/folders/{id}/import", "upload"],
	getSymbol: ["GET", "symbol/symbols/{id}", "json"],
	updateSymbol: ["PATCH", "symbol/symbols/{id}", "json"],
	deleteSymbol: ["DELETE", "symbol/symbols/{id}", "json"],
	updateSymbols: ["PATCH", "symbol/symbols", "json"],
	deleteSymbols: ["POST", "symbol/symbols/delete", "json"],
	listTrash: ["GET", "symbol/trash", "json"],
	deleteTrash: ["DELETE", "symbol/trash/{id}", "json"],
	restoreTrash: ["POST", "symbol/trash/{id}/restore", "json"],
	getSymbolImage: ["GET", "symbol/symbols/{id}/image", "file"],
	searchSymbols: ["GET", "symbol/search", "json"],
	streamChanges: ["GET", "symbol/changes", "file"],
};

const maxCache = 16e6; // bytes
const entryOverhead = 1000; // bytes, for URL and header
const maxRequests = 10; // of one call
const renewBefore = 30_000; // milliseconds before a token expires
const minute = 60_000; // milliseconds
const maxSilence = 45_000; // milliseconds; the server sends a comment at least every 15 seconds
const maxBackoff = 60_000; // milliseconds between two streams

export class CanvasbackError extends Error {
	constructor(message, { cause, ...fields } = {}) {
		super(message, { cause });
		this.name = "CanvasbackError";
		Object.assign(this, { status: 0, code: null, requestId: null, retryAfter: null, body: {}, response: null }, fields);
	}
}

export function createClient({
	baseUrl = new URL(`${"."}`, import.meta.url), // bundlers take a plain "." for a file
	key,
	token,
	getToken,
	maxWait = 60, // seconds
	fetch = globalThis.fetch,
} = {}) {
	const base = new URL(baseUrl, globalThis.document?.baseURI ?? globalThis.location?.href);
	if (base.protocol === "file:") throw new TypeError(`baseUrl must be the URL of the API, not ${base.href}`);
	if (!base.pathname.endsWith("/")) base.pathname += "/";
	const cache = new ResponseCache();

	// A credential is in a header, or in the URL where that is all there is.
	const inHeader = {
		renewable: Boolean(getToken),
		get: getToken ? kept(getToken) : async () => key ?? token,
		put: (value, url, headers) => headers.set("x-api-key", value),
	};
	const inURL = {
		renewable: Boolean(getToken || key),
		get: key ? kept(() => client.createToken({ scopes: ["symbols:read"] })) : inHeader.get,
		put(value, url) {
			if (!/^\w+t_[\w-]+\.[\w-]+$/.test(value)) throw new TypeError("only a page token may be in a URL");
			url.searchParams.set("token", value);
		},
	};

	const client = { request, pages, download, imageUrl, changes };
	for (const [name, operation] of Object.entries(operations)) {
		Object.assign(client, { [name]: async (...args) => (await run(operation, args)).value });
	}
	return client;

	// request sends a request. It repeats it once with another credential, and after the
	// times that the server asks for.
	async function request(method, path, { json, body, headers, signal } = {}, credential = inHeader) {
		const start = Date.now();
		let rejected;
		for (let count = 1; ; count++) {
			const url = resolve(path);
			const init = { method, headers: new Headers(headers), body, signal };
			if (json !== undefined) {
				init.headers.set("Content-Type", "application/json");
				init.body = JSON.stringify(json);
			}
			const value = await orAborted(credential.get(rejected), signal);
			if (value && typeof value !== "string") throw new TypeError("key and token must be strings");
			if (value) credential.put(value, url, init.headers);
			const response = await exchange(url, init);
			if (response.ok) return response;
			const error = await errorOf(response, signal);
			if (credential.renewable && !rejected && [401, 403].includes(error.status)) {
				rejected = value;
				continue;
			}
			const { retryAfter } = error;
			const waited = (Date.now() - start) / 1000;
			if (method !== "GET" || retryAfter === null || count === maxRequests || waited + retryAfter >= maxWait) throw error;
			await sleep(retryAfter * 1000, signal);
		}
	}

	// resolve returns the URL of a path. Another origin must not get a credential.
	function resolve(path) {
		const url = new URL(path, base);
		if (url.origin !== base.origin) throw new TypeError(`${url.href} is not of ${base.origin}`);
		return url;
	}

	// exchange sends a request. A GET is conditional if an earlier response is known.
	async function exchange(url, init) {
		const known = init.method === "GET" && cache.get(url.href);
		if (known) init.headers.set("If-None-Match", known.headers.get("ETag"));
		const response = await fetch(url, init).catch(lost(init.signal));
		if (known && response.status === 304) return new Response(known.body, known);
		const { status, headers } = response;
		if (init.method !== "GET" || status !== 200 || !headers.has("ETag") || headers.get("Content-Length") > maxCache) return response;
		const latest = { headers, body: await response.arrayBuffer().catch(lost(init.signal)) };
		cache.set(url.href, latest);
		return new Response(latest.body, latest);
	}

	// run calls an operation with the arguments of its method. after is where the next
	// page of a list begins.
	async function run([method, path, kind], args) {
		const rest = [...args];
		const target = path.replace(/\{\w+\}/g, () => segment(rest.shift()));
		const body = method === "POST" || method === "PATCH" ? rest.shift() : undefined;
		const { signal, headers, ...query } = rest[0] ?? {};
		if (kind === "upload") query.name ??= body.name?.replace(/\.\w+$/, ""); // of a File
		const init = kind === "upload"
			? { body, headers: { "Content-Type": "application/octet-stream", ...headers }, signal }
			: { json: body, headers, signal };
		const response = await request(method, withQuery(target, query), init);
		const link = /<([^>]*)>; *rel="next"/.exec(response.headers.get("Link") ?? "");
		const isJSON = kind !== "file" || response.headers.get("Content-Type")?.startsWith("application/json");
		return {
			value: isJSON ? await readJSON(response, signal) : response,
			after: link && new URL(link[1], base).searchParams.get("after"),
		};
	}

	async function* pages(method, ...args) {
		const operation = operations[method.name ?? method];
		const ids = args.slice(0, operation[1].split("{").length - 1);
		let options = { limit: 1000, ...args[ids.length] };
		while (options) {
			const { value, after } = await run(operation, [...ids, options]);
			yield value;
			options = after && { ...options, after };
		}
	}

	async function download(body, { fileName, ...options } = {}) {
		const link = await client.createDownloadLink({ fileName, ...body }, options);
		link.url = new URL(link.url, resolve(operations.createDownloadLink[1])).href;
		if (globalThis.document) openDownload(link.url, fileName ?? link.fileName);
		return link;
	}

	async function imageUrl(id, { signal, ...query } = {}) {
		const url = resolve(withQuery(operations.getSymbolImage[1].replace("{id}", segment(id)), query));
		const value = await orAborted(inURL.get(), signal);
		if (value) inURL.put(value, url);
		return url.href;
	}

	function changes(listener, options) {
		const headers = { Accept: "text/event-stream" };
		const connect = (lastEventId, signal) =>
			request("GET", withQuery("symbol/changes", { lastEventId }), { headers, signal }, inURL);
		return follow(connect, listener, options);
	}
}

// ResponseCache keeps the responses that were used last, by URL.
class ResponseCache {
	#entries = new Map(); // the one used last is the last one
	#size = 0;

	get(url) {
		const entry = this.#entries.get(url);
		if (entry) {
			this.#entries.delete(url);
			this.#entries.set(url, entry);
		}
		return entry;
	}

	set(url, entry) {
		this.#delete(url);
		const size = entry.body.byteLength + entryOverhead;
		if (size > maxCache) return;
		this.#entries.set(url, entry);
		this.#size += size;
		for (const oldest of this.#entries.keys()) {
			if (this.#size <= maxCache) return;
			this.#delete(oldest);
		}
	}

	#delete(url) {
		const entry = this.#entries.get(url);
		if (!this.#entries.delete(url)) return;
		this.#size -= entry.body.byteLength + entryOverhead;
	}
}

// kept returns a function for the token that getToken returns. It asks again if the token
// expires soon or was rejected; concurrent calls share the token.
function kept(getToken) {
	let token;
	let expiry; // milliseconds
	let asking;

	async function renew() {
		let given = await getToken();
		if (given?.json) { // a response
			if (given.bodyUsed) throw new TypeError("getToken returned a response that has been read");
			if (!given.ok) throw await errorOf(given);
			given = await readJSON(given);
		}
		const value = given?.token ?? given;
		if (!value || typeof value !== "string") throw new TypeError("getToken returned no token");
		token = value;
		expiry = given.expiresAt ? new Date(given.expiresAt).getTime() : Infinity;
		if (expiry < Date.now() - minute) expiry = Date.now() + minute; // the clock is wrong, rather than the new token
		return token;
	}

	return async (rejected) => {
		if (token && token !== rejected && Date.now() < expiry - renewBefore) return token;
		asking ??= renew().finally(() => (asking = undefined));
		return asking;
	};
}

// follow calls listener with the changes of streams that connect opens, one after the
// other. It resolves when the first one is open.
function follow(connect, listener, { signal, onerror } = {}) {
	const page = globalThis.document;
	const stop = new AbortController();
	const close = () => stop.abort(signal?.reason);
	let opened = false;
	let failures = 0; // one after the other
	let lastEventId;
	let retry = 3000; // milliseconds

	// listen follows one stream until it ends, is silent, or the tab is hidden.
	async function listen(open) {
		const stream = new AbortController();
		const end = () => stream.abort();
		const until = { signal: stream.signal };
		const lost = () => stream.abort(new CanvasbackError("No response from the server", { status: 0 }));
		let silence = setTimeout(lost, maxSilence + maxBackoff);
		stop.signal.addEventListener("abort", end, until);
		page?.addEventListener("visibilitychange", () => page.hidden && end(), until);
		try {
			const response = await connect(lastEventId, stream.signal);
			const { status, headers, body } = response;
			if (!headers.get("Content-Type")?.startsWith("text/event-stream")) throw new CanvasbackError("The response is not an event stream. Is this the URL of the API?", { status, response });
			clearTimeout(silence);
			silence = setTimeout(end, maxSilence);
			failures = 0;
			open();
			let event = {};
			for await (const line of lines(body)) {
				clearTimeout(silence);
				silence = setTimeout(end, maxSilence);
				const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
				if (line) {
					event[name] = value;
					continue;
				}
				lastEventId = event.id ?? lastEventId;
				retry = Number(event.retry ?? retry);
				if (event.event === "symbols") Promise.resolve(JSON.parse(event.data)).then((change) => stop.signal.aborted || listener(change));
				event = {};
			}
		} finally {
			clearTimeout(silence);
			end();
		}
	}

	async function repeat(open) {
		for (;;) {
			if (page?.hidden) {
				open();
				const shown = new Promise((resolve) => page.addEventListener("visibilitychange", resolve, { once: true }));
				await orAborted(shown, stop.signal);
				continue;
			}
			try {
				await listen(open);
			} catch (error) {
				stop.signal.throwIfAborted();
				const denied = error.status >= 400 && error.status < 500 && error.retryAfter === null;
				if (denied || (!opened && !page?.hidden)) throw error;
				failures++;
			}
			if (!page?.hidden) await sleep(Math.min(retry * 2 ** failures, maxBackoff) * (0.5 + Math.random() / 2), stop.signal);
		}
	}

	return new Promise((resolve, reject) => {
		signal?.throwIfAborted();
		signal?.addEventListener("abort", close, { signal: stop.signal });
		repeat(() => {
			opened = true;
			resolve({ close });
		}).catch((error) => {
			if (opened && !stop.signal.aborted) onerror?.(error);
			close();
			reject(error);
		});
	});
}

// lines yields the lines of a stream.
async function* lines(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		const list = (rest + value).split(/\r\n|\n|\r(?!$)/);
		rest = list.pop();
		yield* list;
	}
}

// segment encodes a path segment. URLs have no segments of dots.
function segment(value) {
	if (/^\.{0,2}$/.test(value)) throw new TypeError(`"${value}" cannot be in a path`);
	return encodeURIComponent(value);
}

// withQuery adds the parameters that have a value.
function withQuery(path, parameters) {
	const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
	return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function errorOf(response, signal) {
	const { status, headers } = response;
	const body = (await response.json().catch(() => signal?.throwIfAborted())) ?? {};
	return new CanvasbackError(body.message ?? `The response has status ${status}`, {
		status,
		code: body.code ?? null,
		requestId: body.requestId ?? headers.get("X-Request-Id"),
		retryAfter: seconds(headers.get("Retry-After")),
		body,
		response,
	});
}

// seconds returns the value of Retry-After, a number or a date, or null.
function seconds(text) {
	const value = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000);
	return Number.isNaN(value) ? null : Math.max(0, value);
}

// openDownload lets the browser download a URL. If that fails, a link to another origin
// would show the error in place of the page; a frame does not.
export function openDownload(url, fileName) {
	if (new URL(url).origin === document.location.origin) {
		Object.assign(document.createElement("a"), { href: url, download: fileName, rel: "noreferrer" }).click();
		return;
	}
	const frame = document.createElement("iframe");
	document.body.append(Object.assign(frame, { src: url, hidden: true, referrerPolicy: "no-referrer" }));
}

export async function readJSON(response, signal) {
	return response.json().catch((cause) => {
		if (!(cause instanceof SyntaxError)) return lost(signal)(cause);
		const { status } = response;
		throw new CanvasbackError("The response is not JSON. Is the URL of the API right, and that in getToken?", { status, response, cause });
	});
}

// lost returns a function that throws the error of a missing response.
const lost = (signal) => (cause) => {
	signal?.throwIfAborted();
	throw new CanvasbackError("No response from the server", { cause });
};

// orAborted returns a promise that a signal rejects.
const orAborted = (promise, signal) => new Promise((resolve, reject) => {
	const abort = () => reject(signal.reason);
	promise.then(resolve, reject).finally(() => signal?.removeEventListener("abort", abort));
	signal?.throwIfAborted();
	signal?.addEventListener("abort", abort);
});

function sleep(milliseconds, signal) {
	let timer;
	const over = new Promise((resolve) => (timer = setTimeout(resolve, milliseconds)));
	return orAborted(over, signal).finally(() => clearTimeout(timer));
}
