import { access } from "./access.js";
import { fill, h, icon } from "./dom.js";
import { announce, button, errorContent, errorState, field, form, openDialog } from "./ui.js";

// keyForm is a form for a key. Browsers do not fill saved passwords into a
// new-password field, and password managers skip the marked input.
function keyForm(kind, problem, done) {
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
		done?.();
		access.use(kind, input.value.trim(), store.checked);
	},
	problem && h("div.problem", problem),
	field(title, input, hint),
	h("label.check", store, "Keep this key in this tab across reloads"),
	h("div.actions", h("button.button.main", "Use this key")));
}

// loadFailed shows a failure to load, with a form if a key may help. The admin
// routes return 403 if the server has no admin key, or does not permit the user.
export function loadFailed(body, kind, error, retry) {
	const disabled = error.status === 403 && kind === "admin";
	if (disabled || error.login || ![401, 403].includes(error.status)) return fill(body, errorState(error, !disabled && retry));
	const rejected = access.get(kind);
	if (rejected) access.set(kind, "");
	fill(body, h("div.login", h("div.emblem", icon("key")), h("h2", `${access.describe(kind)[0]} required`), keyForm(kind, rejected && errorContent(error))));
	body.querySelector("input").focus();
}

// openAccess opens a dialog to enter and forget keys.
export function openAccess() {
	const { close } = openDialog({ title: "Access" }, h("div.stack",
		h("p.hint", "Keys are kept in memory or, if you choose so, in this tab. They are sent to the API only, in headers."),
		access.kinds.map((kind) => {
			const [title] = access.describe(kind);
			return h("section.panel", !access.get(kind) ? keyForm(kind, "", () => close()) : [
				h("strong", title),
				h("p.hint", access.isStored(kind) ? "In use, kept in this tab." : "In use until this page is reloaded or closed."),
				button(`Forget the ${title.toLowerCase()}`, { onclick() {
					close();
					access.use(kind, "");
					announce(`${title} forgotten.`);
				} }),
			]);
		})));
}
