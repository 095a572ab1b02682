import { byId, fill, h, icon, newId } from "./dom.js";

const live = byId("live");
let timer;

// announce shows a text for a few seconds in the live region. An open dialog
// contains the region, since text outside a modal dialog is not spoken.
export function announce(text) {
	clearTimeout(timer);
	live.textContent = text;
	timer = setTimeout(() => (live.textContent = ""), 7000);
}

// button creates a button; kind is one or more of main, danger, quiet, small.
export const button = (text, { kind = "", symbol, ...props }) =>
	h("button", { type: "button", class: `button ${kind}`, ...props }, symbol && icon(symbol), text);

// iconButton shows its name in a tooltip only.
export const iconButton = (symbol, name, props) =>
	button(icon(symbol), { kind: "quiet round", "aria-label": name, title: name, ...props });

// runOnce runs the action of a button unless it is still running.
export async function runOnce(node, action) {
	if (node.getAttribute("aria-busy")) return;
	node.setAttribute("aria-busy", "true");
	try {
		await action();
	} finally {
		node.removeAttribute("aria-busy");
	}
}

export function field(label, control, hint) {
	control.id = newId();
	if (hint) control.setAttribute("aria-describedby", `${control.id}-hint`);
	return h("div.field", h("label", { for: control.id }, label), control, hint && h("span.hint", { id: `${control.id}-hint` }, hint));
}

// form calls submit; the browser never submits it.
export const form = (kind, submit, ...content) => h(`form.${kind}`, { autocomplete: "off", onsubmit(event) {
	event.preventDefault();
	submit(event);
} }, content);

export const nameField = (value, hint) =>
	field("Name", h("input", { name: "name", value, required: true, maxlength: "255", autocomplete: "off" }), hint);

// focusFirst focuses an element, its replacement with the same id, or the first
// of the others that is shown.
export function focusFirst(element, ...others) {
	for (const one of [element, element?.id, ...others, "title"]) {
		const node = typeof one === "string" ? byId(one) : one;
		if (node?.isConnected && node !== document.body && !node.closest("[hidden]")) return node.focus();
	}
}

// openDialog shows a modal dialog. closing may return false to keep it open.
// closed may return the id of the element to focus if the opener is gone.
export function openDialog({ title, closing, closed }, ...content) {
	const opener = document.activeElement;
	const titleNode = h("h2", { id: newId() }, title);
	const close = () => closing?.() !== false && dialog.close();
	const dialog = h("dialog", {
		"aria-labelledby": titleNode.id,
		oncancel(event) {
			if (closing?.() === false) event.preventDefault();
		},
		onclose() {
			(document.querySelector("dialog[open]") ?? document.body).append(live);
			dialog.remove();
			focusFirst(opener, closed?.());
		},
	}, h("header", titleNode, iconButton("close", "Close", { onclick: close })), content);
	document.body.append(dialog);
	dialog.showModal();
	dialog.append(live);
	return { dialog, close };
}

// formDialog shows a form in a dialog. Submitting it calls run with the value of
// the name field; an error is shown, success closes the dialog. It returns the
// result of run or true, undefined if the user cancels. after is the id of the
// element to focus if the opener is gone.
export function formDialog({ title, submit, danger, run, after }, ...content) {
	return new Promise((resolve) => {
		let result;
		const problem = h("div.problem", { tabindex: "-1", hidden: true });
		const go = h(`button.button.${danger ? "danger" : "main"}`, submit);
		const cancel = button("Cancel", { kind: "quiet", onclick: () => close() });
		const node = form("stack", () => runOnce(go, async () => {
			problem.hidden = true;
			result = (await run(node.elements.name?.value)) ?? true;
		}).then(() => result && close(), (error) => {
			problem.hidden = false;
			fill(problem, errorContent(error));
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

// menuButton is a button with a menu. entries returns [text, action] or
// [text, action, "danger"] for each menu item.
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
			return announce("Copying needs HTTPS. Select the text and copy it.");
		}
		announce("Copied.");
		copied?.();
		label.textContent = "Copied";
		setTimeout(() => (label.textContent = name), 2000);
	} });
}

// region makes a scrollable element reachable by keyboard.
const region = (name) => ({ tabindex: "0", role: "group", "aria-label": name });

// codeBlock shows a command with a copy button. write replaces the command.
export function codeBlock(name, text = "") {
	const content = h("code", text);
	const node = h("div.command", h("div", h("span.hint", name), copyButton(() => content.textContent, { "aria-label": `Copy: ${name}` })),
		h("pre", region(name), content));
	return { node, write: (command) => (content.textContent = command) };
}

export const table = (name, heads, rows) =>
	h("div.scroll", region(name), h("table",
		h("thead", h("tr", heads.map((text) => h("th", { scope: "col" }, text)))),
		h("tbody", rows.map((row) => h("tr", row.map((cell) => h("td", cell)))))));

// saveBlob saves a blob in the browser's downloads.
export function saveBlob(blob, name) {
	const url = URL.createObjectURL(blob);
	h("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60_000); // the download has begun by then
}

const titles = { 401: "Key rejected", 403: "Not permitted", 404: "Not found", 412: "Changed by someone else", 413: "Too large" };

// errorContent shows an error: a heading, the message and the request id.
export function errorContent({ status, requestId, wait, message, login }) {
	let title = login ? "Login required" : titles[status] ?? (status >= 500 ? "Server error" : "Request rejected");
	if (!status) title = status === undefined ? "Page error" : navigator.onLine ? "Server unreachable" : "You are offline";
	const text = message.replace(/^[a-z]+ /, (word) => word[0].toUpperCase() + word.slice(1)) + (/[./]$/.test(message) ? "" : ".");
	return [h("strong", title), h("p", text, wait ? ` Retry in ${wait} s.` : ""), requestId && h("p.hint", "Request ", h("code", requestId))];
}

// notice fills an otherwise empty screen.
const notice = (symbol, content, action) => h("div.notice", h("div.emblem", icon(symbol)), content, h("div.actions", action));

export const emptyState = (symbol, title, text, action) => notice(symbol, [h("strong", title), h("p", text)], action);

export const errorState = (error, retry) =>
	notice("warning", errorContent(error), retry && button("Retry", { symbol: "reload", onclick: retry }));

// showProblem shows a problem in a banner above the content.
export function showProblem(banner, content, after = "title") {
	const node = h("div.problem", { tabindex: "-1" }, content, button("Dismiss", { kind: "small", onclick() {
		fill(banner);
		focusFirst(after);
	} }));
	fill(banner, node);
	node.focus();
}

// showProgress shows a progress bar and a cancel button in a banner.
export function showProgress(banner, name, signal) {
	const stop = new AbortController();
	const bar = h("progress", { "aria-label": name });
	const text = h("p", `${name}…`);
	fill(banner, h("div.panel.working", text, bar, button("Cancel", { kind: "small", onclick: () => stop.abort() })));
	return { bar, text, signal: AbortSignal.any([signal, stop.signal]) };
}

export const heading = (title, summary, tools = "") =>
	h("div.head", h("div", h("h1#title", { tabindex: "-1" }, title), h("p.summary", summary)), tools);

export const skeleton = (kind) =>
	h(`div.skeleton.${kind}`, { role: "img", "aria-label": "Loading" }, Array.from({ length: 8 }, () => h("div")));
