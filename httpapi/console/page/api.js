import { access, base } from "./access.js";

export const address = (path) => new URL(path, base).href;

// Failure is an answer that is an error, or none at all (status 0).
export class Failure extends Error {
	constructor(status, message, more) {
		super(message);
		Object.assign(this, { status, ...more });
	}
}

// send makes a request with a key, admin or client. What is no answer or an
// error is thrown. An object is sent as JSON, anything else as it is.
export async function send(method, path, { key, body, headers, signal } = {}) {
	const all = new Headers(headers);
	if (access.get(key)) all.set(key === "admin" ? "x-admin-key" : "x-api-key", access.get(key));
	if (body?.constructor === Object) {
		all.set("Content-Type", "application/json");
		body = JSON.stringify(body);
	}
	const response = await fetch(address(path), { method, headers: all, body, signal }).catch(thrown);
	if (response.ok) return response;
	throw new Failure(response.status, `The server answered ${response.status}`, {
		requestId: response.headers.get("X-Request-Id"),
		wait: response.headers.get("Retry-After"),
		...await response.json().catch(() => ({})),
	});
}

export async function call(...request) {
	const response = await send(...request);
	return response.json().catch((error) => {
		if (error.name === "SyntaxError") throw new Failure(response.status, "The answer is not JSON. Is this the address of the API?");
		thrown(error);
	});
}

function thrown(error) {
	throw error.name === "AbortError" ? error : new Failure(0, navigator.onLine ? `Nothing answers at ${base}` : "This device has no connection");
}
