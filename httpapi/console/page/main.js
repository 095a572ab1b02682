import { access } from "./access.js";
import { byId, fill } from "./dom.js";
import { exportsScreen } from "./exports.js";
import { openAccess } from "./keyform.js";
import { keysScreen } from "./keys.js";
import { referenceScreen } from "./reference.js";
import { symbolsScreen } from "./symbols.js";

// A screen is a function of an element and a signal, which is aborted when the
// user leaves the screen. It returns a function that opens the rest of a
// fragment, which may change while the screen stays.
const screens = { keys: keysScreen, symbols: symbolsScreen, exports: exportsScreen, api: referenceScreen };

const main = byId("main");
let current;

function show(reload) {
	const [, requested, ...rest] = location.hash.split("/");
	const name = Object.hasOwn(screens, requested) ? requested : "keys";
	if (current?.name === name && !reload) return current.open(rest);
	const previous = current;
	previous?.leave.abort();
	for (const link of document.querySelectorAll(".screens a")) {
		const isCurrent = link.hash === `#/${name}`;
		if (isCurrent) document.title = `${link.textContent} · Canvasback`;
		link.ariaCurrent = isCurrent ? "page" : null;
	}
	fill(main);
	main.dataset.screen = name;
	const leave = new AbortController();
	current = { name, leave, open: screens[name](main, leave.signal) };
	current.open(rest);
	if (previous) byId("title").focus();
}

function renderAccess() {
	for (const mark of document.querySelectorAll(".in-use")) mark.hidden = !access.get(mark.dataset.kind);
}

access.addEventListener("set", renderAccess);
access.addEventListener("use", () => show(true));
byId("access").addEventListener("click", openAccess);
addEventListener("hashchange", () => show());
// A file dropped elsewhere would replace the page.
addEventListener("drop", (event) => event.preventDefault());
addEventListener("dragover", (event) => {
	if (!event.defaultPrevented) event.dataTransfer.dropEffect = "none";
	event.preventDefault();
});

renderAccess();
show();
