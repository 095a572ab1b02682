import { access } from "./access.js";
import { fill, h, icon } from "./dom.js";
import { button, explained, failed, field, form, openDialog, say } from "./ui.js";

// keyForm asks for a key. No browser fills a saved password into the field of a
// new one, and password managers leave alone what is marked for them.
function keyForm(kind, problem, done) {
	const [title, hint] = access.about(kind);
	const input = h("input", {
		type: "password",
		name: `${kind}-key`,
		required: true,
		autocomplete: "new-password",
		"data-1p-ignore": true,
		"data-bwignore": true,
		"data-lpignore": "true",
		pattern: "[ -~]+",
		title: "Letters, digits and signs of ASCII",
	});
	const keep = h("input", { type: "checkbox" });
	return form("stack", () => {
		done?.();
		access.use(kind, input.value.trim(), keep.checked);
	},
	problem && h("div.problem", problem),
	field(title, input, hint),
	h("label.check", keep, "Keep it in this tab, so that a reload does not ask again"),
	h("div.actions", h("button.button.main", "Use this key")));
}

// gate shows a failure to load: with a form, if a key is all that is needed.
export function gate(body, kind, error, retry) {
	const refused = error.status === 401 || error.status === 403;
	if (!refused || error.message.includes("no admin key")) return fill(body, failed(error, !refused && retry));
	const had = access.get(kind);
	if (had) access.hold(kind, "");
	fill(body, h("div.gate", h("div.emblem", icon("key")), h("h2", `${access.about(kind)[0]} needed`), keyForm(kind, had && explained(error))));
	body.querySelector("input").focus();
}

// openAccess shows which keys are in use, and lets go of them.
export function openAccess() {
	const { close } = openDialog({ title: "Access" }, h("div.stack",
		h("p.hint", "Keys stay in this page’s memory, or in this tab if you say so. They travel in headers, to the API alone."),
		access.kinds.map((kind) => {
			const [title] = access.about(kind);
			return h("section.panel", !access.get(kind) ? keyForm(kind, "", () => close()) : [
				h("strong", title),
				h("p.hint", access.kept(kind) ? "In use, and kept in this tab." : "In use until this page is reloaded or closed."),
				button(`Forget the ${title.toLowerCase()}`, { onclick() {
					close();
					access.use(kind, "");
					say(`${title} forgotten.`);
				} }),
			]);
		})));
}
