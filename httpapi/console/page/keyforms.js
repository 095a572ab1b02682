import { access, apiURL, base, call } from "./api.js";
import { byId, fill, h, icon, newId } from "./dom.js";
import { curl, exact, localDay } from "./text.js";
import { announce, button, codeBlock, copyButton, errorContent, errorState, field, form, formDialog, nameField, openDialog, options, saveBlob } from "./ui.js";

// enterKey is a form for a key. Browsers do not fill saved passwords into a
// new-password field, and password managers skip the marked input.
function enterKey(kind, problem, done) {
	const [title, hint] = access.describe(kind);
	const input = h("input", {
		type: "password",
		name: `${kind}-key`,
		required: true,
		autocomplete: "new-password",
		"data-1p-ignore": true,
		"data-bwignore": true,
		"data-lpignore": "true",
		pattern: "[ -~]+",
		title: "Printable ASCII characters",
	});
	const store = h("input", { type: "checkbox" });
	return form("stack", () => {
		(done ?? (() => byId("title").focus()))();
		access.set(kind, input.value.trim(), store.checked, true);
	},
	problem && h("div.problem", problem),
	field(title, input, hint),
	h("label.check", store, "Keep this key in this tab across reloads"),
	h("div.actions", h("button.button.main", "Use this key"),
		kind === "client" && access.get("admin") && button("Create a client key", { async onclick() {
			done?.();
			const issued = await createKey();
			if (!issued) return;
			access.set("client", issued.apiKey, access.isStored("admin"), true);
			showRawKey("Key created", issued);
		} })));
}

// isRejected reports whether an error is about the key. After any other, what has been
// loaded before stays.
export const isRejected = ({ status }) => [401, 403].includes(status);

// loadFailed shows a failure to load, with a form if a key may help. The admin
// routes return 403 if the server has no admin key, or does not permit the user.
export function loadFailed(body, kind, error, retry) {
	if (error.outdated) return retry();
	const disabled = error.status === 403 && kind === "admin";
	if (disabled || error.login || !isRejected(error)) return fill(body, errorState(error, !disabled && retry));
	if (access.get(kind) && error.status === 401) access.set(kind, ""); // a 403 may be for this screen only
	error.rejected = undefined; // the form is here
	fill(body, h("div.login", h("div.emblem", icon("key")), h("h2", `${access.describe(kind)[0]} required`), enterKey(kind, !error.missing && errorContent(error))));
	body.querySelector("input").focus();
}

// openAccess opens a dialog to enter and forget keys, and to replace a rejected one.
export function openAccess(rejected) {
	const { close } = openDialog({ title: "Access" }, h("div.stack",
		h("p.hint", "Keys are kept in memory or, if you choose so, in this tab. They are sent to the API only, in headers."),
		h("p.hint", "What this page reads with a client key counts as uses of it. Pictures and news of changes need a page token instead, which the page makes with the key once an hour; they count as uses of its key too. To keep the numbers of a customer’s key exact, create a key for the console. Reads with the admin key count nowhere."),
		access.kinds.map((kind) => {
			const [title] = access.describe(kind);
			return h("section.panel", kind === rejected || !access.get(kind) ? enterKey(kind, "", () => close()) : [
				h("strong", title),
				h("p.hint", access.isStored(kind) ? "In use, kept in this tab." : "In use until this page is reloaded or closed."),
				button(`Forget the ${title.toLowerCase()}`, { onclick() {
					close();
					access.set(kind, "", false, true);
					announce(`${title} forgotten.`);
				} }),
			]);
		})));
}

// createKey opens a dialog that creates a key. It returns the response.
export function createKey() {
	const [expiry, owner, scopes] = [expiryField(), ownerField(), permissions()];
	return formDialog({
		title: "Create a client key",
		submit: "Create key",
		run: (name) => call("POST", "admin/api-keys", { key: "admin", body: { name, expiresAt: expiry.value(), owner: owner.value(), scopes: scopes.value() } }),
	}, nameField("", "For example the viewer or site that uses the key."), expiry.node, owner.node, scopes.node);
}

// showRawKey shows a raw key, which cannot be shown again. Until the user has
// saved it, the first attempt to close only warns.
export function showRawKey(title, { apiKey, key }) {
	let saved = false;
	const warning = h("p.problem", { hidden: true, tabindex: "-1" }, "The key has not been copied and cannot be shown again. Close again to discard it.");
	const markSaved = () => {
		saved = true;
		warning.hidden = true;
	};
	const file = `# ${key.name.replaceAll(/\s+/g, " ")}\nCANVASBACK_URL=${base.href.replace(/\/$/, "")}\nCLIENT_API_KEY=${apiKey}\n`;
	const copy = copyButton(() => apiKey, { name: "Copy key", kind: "main", copied: markSaved });
	const inUse = () => [icon("check"), "In use in this console"];
	const { close } = openDialog({
		title,
		closing() {
			if (saved) return true;
			saved = true;
			warning.hidden = false;
			warning.focus();
			return false;
		},
		closed: () => `key-${key.id}-menu`,
	}, h("div.stack",
		h("p", "Store the key of ", h("b", key.name), " now. The server stores only a digest, so it is shown once."),
		h("div.secret", h("code", { oncopy: markSaved }, apiKey), copy),
		h("div.actions",
			button("Download .env", { symbol: "down", onclick() {
				saveBlob(new Blob([file], { type: "text/plain" }), "canvasback.env");
				markSaved();
			} }),
			access.get("client") === apiKey ? h("p.actions", inUse()) : button("Use it in this console", { symbol: "key", onclick({ currentTarget }) {
				access.set("client", apiKey, access.isStored("admin"));
				fill(currentTarget, inUse());
				markSaved();
			} })),
		codeBlock("A request with it", curl({ method: "GET", url: apiURL("symbol/folders"), raw: apiKey })).node,
		warning,
		h("footer", button("Done", { onclick: () => close() }))));
	copy.focus();
}

const choices = [["", "Never"], [30, "30 days"], [90, "90 days"], [365, "1 year"], ["date", "Date"]];

// expiryField is a field for the expiry of a key; current is its current value.
export function expiryField(current) {
	const group = newId();
	const now = Date.now();
	const currentDay = current && localDay(new Date(current) - 1);
	const input = h("input", { type: "date", "aria-label": "Last day", value: currentDay ?? "", oninput: render });
	const hint = h("p.hint");
	const node = h("fieldset", h("legend", "Expires"), h("div.actions", choices.map(([value, text]) =>
		h("label", h("input", { type: "radio", name: group, value, checked: value === (current ? "date" : ""), onchange: render }), h("span.button.small", text)))), input, hint);
	render();
	return { node, value };

	// value returns the time to send, or null. A key expires at the end of the
	// chosen day in local time.
	function value() {
		const choice = node.querySelector(":checked").value;
		if (!choice) return null;
		if (choice !== "date") return new Date(now + choice * 86400e3).toISOString();
		if (input.value === currentDay) return current;
		const [year, month, date] = input.value.split("-");
		return input.value && new Date(year, month - 1, Number(date) + 1).toISOString();
	}

	function render() {
		input.hidden = node.querySelector(":checked").value !== "date";
		input.required = !input.hidden;
		const at = value();
		hint.textContent = at ? `Valid until ${exact(at)}, local time.` : at === null ? "Valid until deactivated, rotated or deleted." : "Valid until the end of that day.";
	}
}

const known = {
	"exports:read": "Download exports",
	"exports:register": "Register exports",
	"symbols:read": "Read symbols",
	"symbols:write": "Change symbols",
};

const checkbox = (text, checked, onchange) => {
	const input = h("input", { type: "checkbox", checked, onchange });
	return { input, node: h("label.check", input, text) };
};

// permissions is a field for the scopes of a key; current is their list, or null
// for everything.
export function permissions(current = null) {
	const all = checkbox("Everything", current === null, render);
	const boxes = Object.entries(known).map(([scope, text]) => ({ scope, ...checkbox(text, !!current?.includes(scope)) }));
	const others = h("input", { value: (current ?? []).filter((scope) => !known[scope]).join(" "), pattern: "[a-z0-9:._\\- ]*", title: "a-z 0-9 : . _ -" });
	const limits = h("div.stack", boxes.map(({ node }) => node), field("Other scopes", others, "Of the application, separated by spaces."));
	const node = h("fieldset", h("legend", "Permits"), all.node, limits);
	render();
	return { node, value };

	// value returns the list to send, or null.
	function value() {
		if (all.input.checked) return null;
		return [...boxes.filter(({ input }) => input.checked).map(({ scope }) => scope), ...others.value.split(" ").filter(Boolean)];
	}

	function render() {
		limits.hidden = others.disabled = all.input.checked;
	}
}

// ownerField is a field for the owner of a key; current is its value, or null.
export function ownerField(current) {
	const input = h("input", { value: current ?? "", list: "owners" });
	return { node: field("Owner", input, "The tenant or team that the key belongs to. Optional."), value: () => (input.value.trim() ? input.value : null) };
}

const overlaps = [[0, "Immediately"], [3600, "In an hour"], [86400, "In a day"], [604800, "In a week"]];

// overlapField is a field for the time for which the previous raw key stays valid.
export function overlapField() {
	const select = options(overlaps);
	return { node: field("The current raw key stops working", select), value: () => Number(select.value) };
}
