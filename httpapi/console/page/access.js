// The keys that the user has entered. They are kept in memory and, if the user
// chooses so, in the session storage of the tab.

const kinds = {
	admin: ["Admin key", "The server’s ADMIN_API_KEY. It manages client keys."],
	client: ["Client key", "A raw client key. It reads and changes symbols and exports."],
};

export const base = new URL(document.documentElement.dataset.api, document.baseURI);

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

export const access = Object.assign(new EventTarget(), {
	kinds: Object.keys(kinds),
	describe: (kind) => kinds[kind],
	get: (kind) => keys[kind],
	isStored: (kind) => stored(kind) !== "",

	// set replaces a key; an empty one removes it. The open screen stays.
	set(kind, key, store) {
		keys[kind] = key;
		try {
			sessionStorage.removeItem(storageKey(kind));
			if (store) sessionStorage.setItem(storageKey(kind), key);
		} catch {
			// storage is disabled: the key is in memory
		}
		access.dispatchEvent(new Event("set"));
	},

	// use is set, and reloads the open screen.
	use(...key) {
		access.set(...key);
		access.dispatchEvent(new Event("use"));
	},
});
