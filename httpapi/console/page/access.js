// The keys that the reader has typed in. They are in memory, and in the session
// storage of the tab only if the reader says so.

const kinds = {
	admin: ["Admin key", "The server’s own key, ADMIN_API_KEY. It manages client keys."],
	client: ["Client key", "The raw key of a client. It reads and changes symbols and exports."],
};

export const base = new URL(document.documentElement.dataset.api, document.baseURI);

// The storage belongs to the origin, which several consoles may share.
const place = (kind) => `canvasback ${kind} ${base}`;

function stored(kind) {
	try {
		return sessionStorage.getItem(place(kind)) ?? "";
	} catch {
		return ""; // storage is switched off
	}
}

const held = { admin: stored("admin"), client: stored("client") };

export const access = Object.assign(new EventTarget(), {
	kinds: Object.keys(kinds),
	about: (kind) => kinds[kind],
	get: (kind) => held[kind],
	kept: (kind) => stored(kind) !== "",

	// hold takes a key, or lets go of it if there is none. Screens stay as
	// they are; after use they begin anew.
	hold(kind, key, keep) {
		held[kind] = key;
		try {
			sessionStorage.removeItem(place(kind));
			if (keep) sessionStorage.setItem(place(kind), key);
		} catch {
			// storage is switched off: the key is in memory
		}
		access.dispatchEvent(new Event("hold"));
	},

	use(...key) {
		access.hold(...key);
		access.dispatchEvent(new Event("use"));
	},
});
