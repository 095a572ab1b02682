import { access } from "./access.js";
import { byId, fill } from "./dom.js";
import { exportsScreen } from "./exports.js";
import { openAccess } from "./keyform.js";
import { keysScreen } from "./keys.js";
import { referenceScreen } from "./reference.js";
import { symbolsScreen } from "./symbols.js";

// A screen is a function that fills an element until the signal says that it
// has been left. It returns a function that takes the rest of the address,
// which may change while the screen stays.
const screens = { keys: keysScreen, symbols: symbolsScreen, exports: exportsScreen, api: referenceScreen };

const main = byId("main");
let current;

function show(again) {
	const [, asked, ...rest] = location.hash.split("/");
	const name = Object.hasOwn(screens, asked) ? asked : "keys";
	if (current?.name === name && !again) return current.open(rest);
	const left = current;
	left?.leave.abort();
	for (const link of document.querySelectorAll(".screens a")) {
		const here = link.hash === `#/${name}`;
		if (here) document.title = `${link.textContent} · Canvasback`;
		link.ariaCurrent = here ? "page" : null;
	}
	fill(main);
	main.dataset.screen = name;
	const leave = new AbortController();
	current = { name, leave, open: screens[name](main, leave.signal) };
	current.open(rest);
	if (left) byId("title").focus();
}

function paintAccess() {
	for (const mark of document.querySelectorAll(".held")) mark.hidden = !access.get(mark.dataset.kind);
}

access.addEventListener("hold", paintAccess);
access.addEventListener("use", () => show(true));
byId("access").addEventListener("click", openAccess);
addEventListener("hashchange", () => show());
// A file that misses its mark would replace the page.
addEventListener("drop", (event) => event.preventDefault());
addEventListener("dragover", (event) => {
	if (!event.defaultPrevented) event.dataTransfer.dropEffect = "none";
	event.preventDefault();
});

paintAccess();
show();
