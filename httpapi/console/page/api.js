import { access, base } from "./access.js";

export const apiURL = (path) => new URL(path, base).href;

// Failure is an error response, or the lack of a response (status 0).
export class Failure extends Error {
	constructor(status, message, more) {
		super(message);
		Object.assign(this, { status, ...more });
	}
}

// send sends a request with a key, "admin" or "client", or both. It throws a
// Failure unless the response is a success. Objects are sent as JSON.
export async function send(method, path, { key, body, headers, signal } = {}) {
	const all = new Headers(headers);
	for (const kind of [key].flat()) {
		if (access.get(kind)) all.set(kind === "admin" ? "x-admin-key" : "x-api-key", access.get(kind));
	}
	if (body?.constructor === Object) {
		all.set("Content-Type", "application/json");
		body = JSON.stringify(body);
	}
	const response = await fetch(apiURL(path), { method, headers: all, body, signal }).catch(rethrow);
	if (response.ok) return response;
	throw new Failure(response.status, `The response has status ${response.status}`, {
		requestId: response.headers.get("X-Request-Id"),
		wait: response.headers.get("Retry-After"),
		login: response.headers.get("WWW-Authenticate") === "Application", // the server has a login of its own
		...await response.json().catch(() => ({})),
	});
}

// call is send for a JSON response.
export const call = async (...request) => parse(await send(...request));

// pages yields the pages of a list as {records, more}.
export async function* pages(path, options) {
	while (path) {
		const response = await send("GET", path, options);
		const [, next] = /<([^>]*)>; rel="next"/.exec(response.headers.get("Link")) ?? [];
		path = next && new URL(next, response.url).href;
		yield { records: await parse(response), more: Boolean(path) };
	}
}

const parse = (response) => response.json().catch((error) => {
	if (error.name === "SyntaxError") throw new Failure(response.status, "The response is not JSON. Is this the URL of the API?");
	rethrow(error);
});

function rethrow(error) {
	throw error.name === "AbortError" ? error : new Failure(0, navigator.onLine ? `No response from ${base}` : "This device has no connection");
}
