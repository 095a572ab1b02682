import { byId, fill, h, icon, unique } from "./dom.js";

const live = byId("live");
let silence;

// say shows a short text for a while and has it spoken. The one live region
// moves into an open dialog, outside of which nothing is spoken.
export function say(text) {
	clearTimeout(silence);
	live.textContent = text;
	silence = setTimeout(() => (live.textContent = ""), 7000);
}

// button makes a button; kind is main, danger, quiet, small, or several of them.
export const button = (text, { kind = "", symbol, ...props }) =>
	h("button", { type: "button", class: `button ${kind}`, ...props }, symbol && icon(symbol), text);

// iconButton has a name that is seen as a tooltip only.
export const iconButton = (symbol, name, props) =>
	button(icon(symbol), { kind: "quiet round", "aria-label": name, title: name, ...props });

// busy does what a button stands for, once at a time.
export async function busy(node, action) {
	if (node.getAttribute("aria-busy")) return;
	node.setAttribute("aria-busy", "true");
	try {
		await action();
	} finally {
		node.removeAttribute("aria-busy");
	}
}

export function field(label, control, hint) {
	control.id = unique();
	if (hint) control.setAttribute("aria-describedby", `${control.id}-hint`);
	return h("div.field", h("label", { for: control.id }, label), control, hint && h("span.hint", { id: `${control.id}-hint` }, hint));
}

// form is sent by submit, never by the browser.
export const form = (kind, submit, ...content) => h(`form.${kind}`, { autocomplete: "off", onsubmit(event) {
	event.preventDefault();
	submit(event);
} }, content);

export const nameField = (value, hint) =>
	field("Name", h("input", { name: "name", value, required: true, maxlength: "255", autocomplete: "off" }), hint);

// refocus gives the focus to an element, to what has taken its place, or to the
// first of the others that is there.
export function refocus(element, ...others) {
	for (const one of [element, element?.id, ...others, "title"]) {
		const node = typeof one === "string" ? byId(one) : one;
		if (node?.isConnected && node !== document.body && !node.closest("[hidden]")) return node.focus();
	}
}

// openDialog shows a modal dialog. closing may return false to keep it open;
// closed may return the id of what gets the focus if the opener is gone.
export function openDialog({ title, closing, closed }, ...content) {
	const opener = document.activeElement;
	const heading = h("h2", { id: unique() }, title);
	const close = () => closing?.() !== false && dialog.close();
	const dialog = h("dialog", {
		"aria-labelledby": heading.id,
		oncancel(event) {
			if (closing?.() === false) event.preventDefault();
		},
		onclose() {
			(document.querySelector("dialog[open]") ?? document.body).append(live);
			dialog.remove();
			refocus(opener, closed?.());
		},
	}, h("header", heading, iconButton("close", "Close", { onclick: close })), content);
	document.body.append(dialog);
	dialog.showModal();
	dialog.append(live);
	return { dialog, close };
}

// ask shows a form in a dialog, which closes when run, called with the name in
// the form, has done what is asked for; an error of it is shown. It gives what
// run returned, or true, or nothing if the reader would rather not. after is
// what gets the focus if the opener is gone by then.
export function ask({ title, submit, danger, run, after }, ...content) {
	return new Promise((resolve) => {
		let result;
		const problem = h("div.problem", { tabindex: "-1", hidden: true });
		const go = h(`button.button.${danger ? "danger" : "main"}`, submit);
		const cancel = button("Cancel", { kind: "quiet", onclick: () => close() });
		const node = form("stack", () => busy(go, async () => {
			problem.hidden = true;
			result = (await run(node.elements.name?.value)) ?? true;
		}).then(() => result && close(), (error) => {
			problem.hidden = false;
			fill(problem, explained(error));
			problem.focus();
		}), content, problem, h("footer", cancel, go));
		const { close } = openDialog({
			title,
			closing: () => !go.hasAttribute("aria-busy"),
			closed: () => (resolve(result), result && after),
		}, node);
		(node.querySelector("input, select") ?? cancel).focus();
	});
}

// menuButton is a button with a menu, which is made when it is opened. An entry
// is a text, what it does and, if that cannot be undone, "danger".
export function menuButton(name, id, entries) {
	const opener = iconButton("more", name, { id, "aria-haspopup": "menu", "aria-expanded": "false", onclick() {
		const items = entries().map(([text, run, danger = ""]) => button(text, { kind: `quiet ${danger}`, role: "menuitem", tabindex: "-1", onclick() {
			menu.hidePopover();
			opener.focus();
			run();
		} }));
		const menu = h("div.menu", { role: "menu", popover: "auto", "aria-label": name,
			ontoggle({ newState }) {
				opener.setAttribute("aria-expanded", newState === "open");
				if (newState === "closed") menu.remove();
			},
			onkeydown(event) {
				const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
				if (event.key === "Tab") menu.hidePopover();
				if (!step) return;
				event.preventDefault();
				items.at((items.indexOf(document.activeElement) + step) % items.length).focus();
			},
		}, items);
		opener.after(menu);
		menu.showPopover();
		const { top, bottom, right } = opener.getBoundingClientRect();
		const { offsetWidth, offsetHeight } = menu;
		menu.style.left = `${Math.max(8, right - offsetWidth)}px`;
		menu.style.top = `${bottom + 4 + offsetHeight < innerHeight ? bottom + 4 : Math.max(8, top - offsetHeight - 4)}px`;
		items[0].focus();
	} });
	return opener;
}

export function copyButton(text, { name = "Copy", kind = "small", copied, ...props } = {}) {
	const label = h("span", name);
	return button(label, { kind, symbol: "copy", ...props, async onclick() {
		try {
			await navigator.clipboard.writeText(text());
		} catch {
			return say("Pages without TLS may not copy. Select the text and copy it.");
		}
		say("Copied.");
		copied?.();
		label.textContent = "Copied";
		setTimeout(() => (label.textContent = name), 2000);
	} });
}

// region is for what may scroll: the keyboard reaches it.
const region = (name) => ({ tabindex: "0", role: "group", "aria-label": name });

// code shows a command with a button that copies it. write shows another one.
export function code(name, text = "") {
	const content = h("code", text);
	const node = h("div.command", h("div", h("span.hint", name), copyButton(() => content.textContent, { "aria-label": `Copy: ${name}` })),
		h("pre", region(name), content));
	return { node, write: (other) => (content.textContent = other) };
}

export const table = (name, heads, rows) =>
	h("div.scroll", region(name), h("table",
		h("thead", h("tr", heads.map((text) => h("th", { scope: "col" }, text)))),
		h("tbody", rows.map((row) => h("tr", row.map((cell) => h("td", cell)))))));

// save gives a blob to the browser's downloads.
export function save(blob, name) {
	const url = URL.createObjectURL(blob);
	h("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60_000); // it has begun by then
}

const titles = { 401: "The key was refused", 403: "The key was refused", 412: "Changed by someone else meanwhile", 413: "Too large for this server" };

// explained says what an error means: a heading, the server's own words, and
// what it is found by in the log.
export function explained({ status, requestId, wait, message }) {
	let title = titles[status] ?? (status >= 500 ? "The server failed" : "The server refused this");
	if (!status) title = status === undefined ? "This page failed" : navigator.onLine ? "The server cannot be reached" : "You are offline";
	if (message === "no such route") title = "This server does not offer this";
	const text = message.replace(/^[a-z]+ /, (word) => word[0].toUpperCase() + word.slice(1)) + (/[./]$/.test(message) ? "" : ".");
	return [h("strong", title), h("p", text, wait ? ` Try again in ${wait} s.` : ""), requestId && h("p.hint", "Request ", h("code", requestId))];
}

// notice is what stands where there is nothing else.
const notice = (symbol, content, action) => h("div.notice", h("div.emblem", icon(symbol)), content, h("div.actions", action));

export const nothing = (symbol, title, text, action) => notice(symbol, [h("strong", title), h("p", text)], action);

export const failed = (error, retry) =>
	notice("warning", explained(error), retry && button("Try again", { symbol: "reload", onclick: retry }));

// trouble shows what is wrong in a strip above what it is about.
export function trouble(strip, content, after = "title") {
	const node = h("div.problem", { tabindex: "-1" }, content, button("Dismiss", { kind: "small", onclick() {
		fill(strip);
		refocus(after);
	} }));
	fill(strip, node);
	node.focus();
}

// working shows in a strip how far something is, with a way to stop it.
export function working(strip, name, signal) {
	const stop = new AbortController();
	const bar = h("progress", { "aria-label": name });
	const text = h("p", `${name}…`);
	fill(strip, h("div.panel.working", text, bar, button("Cancel", { kind: "small", onclick: () => stop.abort() })));
	return { bar, text, signal: AbortSignal.any([signal, stop.signal]) };
}

export const head = (title, summary, tools = "") =>
	h("div.head", h("div", h("h1#title", { tabindex: "-1" }, title), h("p.summary", summary)), tools);

export const skeleton = (kind) =>
	h(`div.skeleton.${kind}`, { role: "img", "aria-label": "Loading" }, Array.from({ length: 8 }, () => h("div")));
