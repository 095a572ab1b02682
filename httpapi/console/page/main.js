import { access } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { exportsScreen } from "./exports.js";
import { openAccess } from "./keyforms.js";
import { keyScreen, ownerScreen } from "./keypage.js";
import { keysScreen } from "./keys.js";
import { overviewScreen } from "./overview.js";
import { referenceScreen } from "./reference.js";
import { errorState, heading, openDialog, skeleton } from "./ui.js";

// A screen is a function of its root element. It returns a function that opens the
// rest of a fragment, or {open, leave}. Screens stay in memory with all that the
// user has entered and started there.
const screens = { overview: overviewScreen, keys: keysScreen, symbols: largeScreen, exports: exportsScreen, api: referenceScreen, key: keyScreen, owner: ownerScreen };
const tabOf = { key: "keys", owner: "keys" }; // those that the navigation does not have
const tabs = Object.keys(screens).filter((name) => !tabOf[name]);

// largeScreen is the screen of symbols, whose code is a third of the page. It is loaded
// when the screen is opened.
function largeScreen(root) {
	let loaded;
	let query = ""; // Firefox remembers the failure of a URL
	const wait = () => fill(root, heading("Symbols", ""), skeleton("grid"));
	const load = async () => {
		const { symbolsScreen } = await import(`./symbols.js${query}`);
		const focused = root.contains(document.activeElement);
		fill(root);
		const made = symbolsScreen(root);
		if (focused) byId("title").focus({ preventScroll: true });
		return made;
	};
	const open = async (...state) => {
		try {
			const { open } = await (loaded ??= load());
			if (root.isConnected) open(...state);
		} catch (error) {
			loaded = undefined;
			query = `?${Date.now()}`;
			const upgraded = error instanceof SyntaxError; // the server, since this page was loaded
			fill(root, heading("Symbols", ""), errorState(error, () => (upgraded ? location.reload() : (wait(), open(...state)))));
		}
	};
	wait();
	return { open, leave: () => loaded?.then(({ leave }) => leave(), () => {}) };
}

const main = byId("main");
const built = new Map();
let current;

// show shows the screen of the fragment. from is the fragment that was left, to which
// the link of its screen leads from now on.
function show(from) {
	const [path, values] = location.hash.split("?");
	const [, requested, ...rest] = path.split("/");
	const name = Object.hasOwn(screens, requested) ? requested : "overview";
	const links = document.querySelectorAll(".screens a");
	const link = (of) => links[tabs.indexOf(tabOf[of] ?? of)];
	if (current?.name !== name) {
		const previous = current;
		if (previous) {
			previous.scroll = scrollY;
			if (!tabOf[previous.name]) link(previous.name).setAttribute("href", from || "#");
			previous.leave?.();
		}
		if (!built.has(name)) {
			const root = h("div");
			const made = screens[name](root);
			built.set(name, { name, root, stale: true, scroll: 0, ...(made.open ? made : { open: made }) });
		}
		current = built.get(name);
		fill(main, current.root);
		main.dataset.screen = name;
		for (const one of links) one.ariaCurrent = one === link(name) ? "page" : null;
		document.title = `${link(name).textContent} · Canvasback`;
		if (!tabOf[name]) link(name).setAttribute("href", `#/${name}`);
		if (previous) byId("title").focus({ preventScroll: true });
		scrollTo(0, current.scroll);
	}
	const { stale } = current;
	current.stale = false;
	current.open(rest, stale, new URLSearchParams(values));
}

access.ask = openAccess;
access.changed = (load) => {
	for (const mark of document.querySelectorAll(".in-use")) mark.hidden = !access.get(mark.dataset.kind);
	for (const one of built.values()) one.stale = true;
	if (load) show();
};

// Keyboard shortcuts can be switched off (WCAG 2.2, 2.1.4).
const off = "canvasback shortcuts off";
let shortcuts = true;
try {
	shortcuts = !localStorage.getItem(off);
} catch {
	// storage is disabled
}

const help = {
	"/": ["Search", () => main.querySelector("[type=search]")],
	n: ["Create or add", () => main.querySelector(".head .main")],
	u: ["Undo the last change", () => [...document.querySelectorAll(".undo")].pop()],
	"?": ["Show the shortcuts", () => byId("help")],
	...Object.fromEntries(tabs.map((name, i) => [i + 1, [`Open ${name === "api" ? "API" : name}`, () => document.querySelectorAll(".screens a")[i]]])),
};

// Keys with Ctrl, Alt or Meta are those of the browser, such as Alt+Left.
addEventListener("keydown", (event) => (event.ctrlKey || event.metaKey || event.altKey) && event.stopPropagation(), true);
addEventListener("keydown", (event) => {
	const node = help[event.key]?.[1]();
	if (!shortcuts || event.repeat || !node?.checkVisibility() || event.target.closest("input:not([type=checkbox]), textarea, select, dialog, .menu")) return;
	event.preventDefault();
	if (event.key === "/") node.focus();
	else node.click();
});

function openHelp() {
	const keys = { ...help, "Arrow keys": ["Move in lists, tables and the grid"], Space: ["Select a symbol"], Escape: ["Clear a search, close a dialog"] };
	const box = h("input", { type: "checkbox", checked: shortcuts, onchange() {
		shortcuts = box.checked;
		try {
			if (shortcuts) localStorage.removeItem(off);
			else localStorage.setItem(off, "1");
		} catch {
			// storage is disabled: until the page is closed
		}
	} });
	openDialog({ title: "Keyboard shortcuts" }, h("div.stack",
		h("dl.shortcuts", Object.entries(keys).map(([key, [text]]) => h("div", h("dt", h("kbd", key)), h("dd", text)))),
		h("label.check", box, "Single-key shortcuts")));
}

byId("help").addEventListener("click", openHelp);
byId("access").addEventListener("click", openAccess);
byId("skip").addEventListener("click", (event) => {
	event.preventDefault(); // the fragment names the screen
	byId("title").focus();
});
addEventListener("hashchange", ({ oldURL }) => show(new URL(oldURL).hash));
// A file dropped elsewhere would replace the page.
addEventListener("drop", (event) => event.preventDefault());
addEventListener("dragover", (event) => {
	if (!event.defaultPrevented) event.dataTransfer.dropEffect = "none";
	event.preventDefault();
});

access.changed();
show();
