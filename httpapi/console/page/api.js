// The keys that the user has entered, and requests with them. Keys are kept in
// memory and, if the user chooses so, in the session storage of the tab.

import { CanvasbackError, createClient, readJSON } from "../../client/client.js";

export const base = new URL(document.documentElement.dataset.api, document.baseURI);

export const apiURL = (path) => new URL(path, base).href;

const kinds = {
	admin: ["Admin key", "The server’s ADMIN_API_KEY. It manages client keys.", "x-admin-key"],
	client: ["Client key", "A raw client key. It reads and changes symbols and exports.", "x-api-key"],
};

// All consoles of an origin share its session storage.
const storageKey = (kind) => `canvasback ${kind} ${base}`;

function stored(kind) {
	try {
		return sessionStorage.getItem(storageKey(kind)) ?? "";
	} catch {
		return ""; // storage is disabled
	}
}

const keys = { admin: stored("admin"), client: stored("client") };

export const access = {
	kinds: Object.keys(kinds),
	describe: (kind) => kinds[kind],
	get: (kind) => keys[kind],
	isStored: (kind) => stored(kind) !== "",
	changed() {}, // called with whether the screens shall load again
	ask() {}, // opens the dialog for the keys, with a form for a rejected one

	// set replaces a key; an empty one removes it.
	set(kind, key, store, load) {
		keys[kind] = key;
		forImages = images();
		try {
			sessionStorage.removeItem(storageKey(kind));
			if (store) sessionStorage.setItem(storageKey(kind), key);
		} catch {
			// storage is disabled: the key is in memory
		}
		access.changed(load);
	},
};

// failures are the last failed requests of this page, the latest one first.
export const failures = [];

// connect returns a client, whose GETs are not repeated: the page shows when to retry.
const connect = (fetch) => createClient({ baseUrl: base, maxWait: 0, fetch });

const plain = connect();

// The client whose page token is in the URLs of images. It makes the token with the
// client key, which counts as one use of the key an hour.
const images = () => createClient({ baseUrl: base, key: keys.client || undefined });
let forImages = images();

// imageURL returns the URL of the picture of a symbol. A picture that has changed needs
// another version, because a page keeps images by URL.
export const imageURL = (id, version) => forImages.imageUrl(id, { version });

// follow calls a listener with the changes of the library, of this page too, until the
// signal is aborted, or the key is rejected, which calls onerror.
export const followChanges = (listener, signal, onerror) => forImages.changes(listener, { signal, onerror });

// writes are the numbers of requests that change something.
export const writes = { started: 0, finished: 0 };

// send sends a request with a key, "admin" or "client", or both. It throws a
// CanvasbackError unless the response is a success. The error is outdated if a key has
// been entered since the request. Objects are sent as JSON. progress is called with the
// events of the upload. A 404 for what is optional is no failure of the page.
export async function send(method, path, { key, body, headers, signal, progress, optional } = {}) {
	const all = { ...headers };
	const sent = { ...keys };
	for (const kind of [key].flat()) {
		if (keys[kind]) all[kinds[kind][2]] = keys[kind];
	}
	const content = body?.constructor === Object ? { json: body } : { body };
	const writing = method !== "GET" && method !== "HEAD" && !path.endsWith("/check");
	if (writing) writes.started++;
	const { request } = progress ? connect((url, init) => upload(url, init, progress)) : plain;
	try {
		return await request(method, path, { ...content, headers: all, signal });
	} catch (error) {
		if (!(error instanceof CanvasbackError)) throw error;
		explain(error);
		if (error.status === 401 && !error.login) error.rejected = [key].flat().find((kind) => keys[kind]);
		error.outdated = access.kinds.some((kind) => keys[kind] && sent[kind] !== keys[kind]);
		if (!error.missing && !(optional && error.status === 404)) {
			failures.unshift({ at: new Date().toISOString(), method, path: path.replace(/\?.*/, ""), error });
			failures.length = Math.min(failures.length, 20);
		}
		throw error;
	} finally {
		if (writing) writes.finished++;
	}
}

// explain adds to an error what this page knows about it.
function explain(error) {
	const { status, message, response } = error;
	if (!status) error.message = navigator.onLine ? `No response from ${base}` : "This device has no connection";
	error.login = response?.headers.get("WWW-Authenticate") === "Application"; // the server has a login of its own
	if (status === 401) error.missing = access.kinds.find((kind) => message.startsWith(kinds[kind][2]) && !keys[kind]);
}

// upload is a fetch that reports the progress of the request body.
const upload = (url, { method, headers, body, signal }, progress) => new Promise((resolve, reject) => {
	const request = new XMLHttpRequest();
	request.open(method, url);
	headers.forEach((value, name) => request.setRequestHeader(name, value));
	request.responseType = "blob";
	request.upload.onprogress = progress;
	request.onerror = reject;
	request.onload = () => resolve(new Response(request.response.size ? request.response : null, { // a 204 must have none
		status: request.status,
		headers: request.getAllResponseHeaders().split("\r\n").filter(Boolean).map((line) => line.split(/: (.*)/, 2)),
	}));
	request.onabort = () => reject(signal.reason);
	signal?.addEventListener("abort", () => request.abort());
	request.send(body);
});

// call is send for a JSON response.
export const call = async (...request) => readJSON(await send(...request));

// readiness returns the lines of the server's readiness check, or none.
export async function readiness() {
	const { ready } = document.documentElement.dataset;
	if (!ready) return [];
	const response = await fetch(new URL(ready, document.baseURI));
	return [200, 503].includes(response.status) ? (await response.text()).trim().split("\n") : [];
}

// pages yields the pages of a list as {records, more}.
export async function* pages(path, options) {
	while (path) {
		const response = await send("GET", path, options);
		const [, next] = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link")) ?? [];
		path = next && new URL(next, apiURL(path)).href;
		yield { records: await readJSON(response), more: Boolean(path) };
	}
}
