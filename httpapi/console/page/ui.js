import { access } from "./api.js";
import { byId, fill, h, icon, newId } from "./dom.js";
import { bytes, plural } from "./text.js";

const live = byId("live");

// announce shows a text for some seconds in the live region. An open dialog
// contains the region, since text outside a modal dialog is not spoken. undo takes
// the announced change back.
export function announce(text, undo) {
	let timer;
	let from; // had the focus before the toast
	const close = () => {
		const focused = toast.contains(document.activeElement);
		toast.remove();
		if (focused) (from?.isConnected ? from : byId(from?.id))?.focus({ preventScroll: true });
	};
	const stop = () => clearTimeout(timer);
	const wait = () => (stop(), timer = setTimeout(close, undo ? 12_000 : 7000));
	const enter = ({ relatedTarget }) => (stop(), toast.contains(relatedTarget) || (from = relatedTarget));
	const toast = h("div.toast", { onpointerenter: stop, onfocusin: enter, onpointerleave: wait, onfocusout: wait }, h("span", text),
		undo && button("Undo", { kind: "small undo", onclick: ({ currentTarget }) => runOnce(currentTarget, () => undo().then((done) => done !== false && announce("Undone."), (error) => announce(error.message)).then(close)) }),
		iconButton("close", "Dismiss", { onclick: close }));
	live.append(toast);
	if (live.children.length > 3) live.firstChild.remove();
	wait();
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

export const searchField = (placeholder, label, oninput, more) =>
	h("input", { type: "search", placeholder, "aria-label": label, autocomplete: "off", spellcheck: "false", oninput, ...more });

// options is a select with a choice of [value, text].
export const options = (list, props) => h("select", props, list.map(([value, text]) => h("option", { value }, text)));

// form calls submit; the browser never submits it.
export const form = (kind, submit, ...content) => h(`form.${kind}`, { autocomplete: "off", onsubmit(event) {
	event.preventDefault();
	submit(event);
} }, content);

export const nameField = (value, hint) =>
	field("Name", h("input", { name: "name", value, required: true, autocomplete: "off" }), hint);

// focusFirst focuses an element, its replacement with the same id, or the first
// of the others that is shown.
export function focusFirst(element, ...others) {
	for (const one of [element, element?.id, ...others, "title"]) {
		const node = typeof one === "string" ? byId(one) : one;
		if (node?.isConnected && node !== document.body && !node.closest("[hidden]")) return node.focus();
	}
}

// openDialog shows a modal dialog. closing may return false to keep it open.
// closed may return the id of the element to focus if the opener is gone, or, with
// closedFirst, in any case.
export function openDialog({ title, closing, closed, closedFirst, tools }, ...content) {
	const opener = document.activeElement;
	const titleNode = h("h2", { id: newId() }, title);
	const close = () => closing?.() !== false && dialog.close();
	const dialog = h("dialog", {
		"aria-labelledby": titleNode.id,
		oncancel(event) {
			if (closing?.() === false) event.preventDefault();
		},
		onclose() {
			if (closing?.() === false) return dialog.showModal(); // browsers close a dialog at the second Escape, whatever oncancel does
			([...document.querySelectorAll("dialog[open]")].pop() ?? document.body).append(live);
			dialog.remove();
			const after = closed?.();
			focusFirst(...(closedFirst ? [after, opener] : [opener, after]));
		},
	}, h("header", titleNode, h("div.actions", tools, iconButton("close", "Close", { onclick: close }))), content);
	document.body.append(dialog);
	dialog.showModal();
	dialog.append(live);
	return { dialog, close, titleNode };
}

// formDialog shows a form in a dialog. Submitting it calls run with the value of
// the name field; an error is shown, success closes the dialog. After a conflict, the
// user keeps either change. It returns the result of run or true, undefined if the user
// cancels. after is the id of the element to focus if the opener is gone. While run has no
// response, the first attempt to close only warns; after the second one, the promise waits.
export function formDialog({ title, submit, cancel = "Cancel", danger, run, after }, ...content) {
	return new Promise((resolve) => {
		let result;
		let warned;
		const problem = h("div.problem", { tabindex: "-1", hidden: true });
		const busy = () => go.hasAttribute("aria-busy");
		const tell = (...content) => {
			problem.hidden = false;
			fill(problem, content);
			problem.focus();
		};
		const go = h(`button.button.${danger ? "danger" : "main"}`, submit);
		const stay = button(cancel, { kind: "quiet", onclick: () => close() });
		const node = form("stack", () => runOnce(go, async () => {
			problem.hidden = true;
			warned = false;
			result = (await run(node.elements.name?.value)) ?? true;
		}).then(() => (dialog.isConnected ? result && close() : resolve(result)), (error) => {
			if (!dialog.isConnected) return resolve(announce(`${submit}: ${error.message}`));
			tell(errorContent(error), bothOf(error));
			if (error.values) [stay.textContent, go.textContent] = ["Keep theirs", "Use mine"];
		}), content, problem, h("footer", stay, go));
		const { dialog, close } = openDialog({
			title,
			closing() {
				if (!busy() || warned) return true;
				warned = true;
				tell("The server has not responded yet. Close again to stop waiting: what you have sent may still take effect.");
				return false;
			},
			closed: () => (busy() || resolve(result), result && after),
		}, node);
		(node.querySelector("input, select, textarea") ?? stay).focus();
	});
}

// bothOf shows what someone else and the user have changed, if an error is a conflict.
const bothOf = ({ values }) => values && table("Theirs and mine", ["", "Theirs", "Mine"], values.map(({ name, theirs, mine }) =>
	[h("b", name), theirs, mine ?? h("i", "Deleted")]));

// settled runs a change that has no dialog. After a conflict, it asks which one to keep;
// it returns false if it is theirs.
export async function settled(run) {
	try {
		return await run();
	} catch (error) {
		if (!error.values) throw error;
		const result = await formDialog({ title: "Keep which change?", submit: "Use mine", cancel: "Keep theirs", run }, h("div.problem", errorContent(error), bothOf(error)));
		return result ?? false;
	}
}

// menuButton is a button with a menu. entries returns [text, action] or
// [text, action, "danger"] for each menu item.
export const menuButton = (name, id, entries, props) =>
	iconButton("more", name, { id, "aria-haspopup": "menu", "aria-expanded": "false", ...props, onclick: ({ currentTarget }) => openMenu(currentTarget, name, entries()) });

export function openMenu(opener, name, entries) {
	const items = entries.map(([text, run, danger = ""]) => button(text, { kind: `quiet ${danger}`, role: "menuitem", tabindex: "-1", onclick() {
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
			event.stopPropagation();
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
}

export async function copyText(text) {
	try {
		await navigator.clipboard.writeText(text);
		announce("Copied.");
		return true;
	} catch {
		announce("Copying needs HTTPS. Select the text and copy it.");
	}
}

export function copyButton(text, { name = "Copy", kind = "small", copied, ...props } = {}) {
	const label = h("span", name);
	return button(label, { kind, symbol: "copy", ...props, async onclick() {
		if (!await copyText(text())) return;
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

// records is a table of records whose rows are one tab stop each: arrow keys move
// among the controls. It returns the table and its body.
export function records(name, heads) {
	const body = h("tbody", { role: "rowgroup", onkeydown(event) {
		const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
		const row = event.target.closest("tr");
		const controls = (one) => [...one.querySelectorAll("input, button, a")].filter((node) => node.checkVisibility());
		const to = down === undefined ? undefined : down ? body.rows[row.sectionRowIndex + down] : row;
		if (!to) return;
		event.preventDefault();
		const at = controls(row).indexOf(event.target);
		controls(to).at(Math.max(0, at + right))?.focus();
	} });
	return [h("table.records", { role: "grid", "aria-label": name },
		h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((text) =>
			h("th", { role: "columnheader", scope: "col" }, text || h("span.visually-hidden", "Actions"))))), body), body];
}

// recordRow is a row of records. The last of the controls is the tab stop.
export function recordRow(id, head, cells, controls) {
	const last = controls.at(-1);
	const node = h("tr", { role: "row", id }, h("th", { role: "rowheader", scope: "row" }, head),
		Object.entries(cells).map(([name, content]) => h("td", { role: "gridcell", "data-name": name }, h("div", content))),
		h("td.actions", { role: "gridcell" }, controls));
	for (const one of node.querySelectorAll("input, button, a")) one.tabIndex = one === last ? 0 : -1;
	return node;
}

// selection is a bar for the selected records; changed is called after a change.
export function selection(one, changed) {
	const ids = new Set();
	let last; // toggled id
	const text = h("b");
	const node = h("div.selection", { hidden: true, role: "group", "aria-label": "Selection" }, text, button("Clear", { kind: "quiet small", onclick: () => self.set([]) }));
	const render = () => {
		node.hidden = !ids.size;
		changed();
	};
	const self = {
		node,
		ids,
		offer: (buttons) => text.after(...buttons),

		// count tells how many of a list are selected, and how many others.
		count(shown) {
			const hidden = ids.size - shown.filter(({ id }) => ids.has(id)).length;
			text.textContent = `${plural(ids.size, one)} selected${hidden ? `, ${hidden.toLocaleString("en")} of them not in this list` : ""}`;
		},

		set(list) {
			ids.clear();
			for (const id of list) ids.add(id);
			render();
		},

		// toggle selects a record of a list, or all from the last one to it.
		toggle(id, range, list) {
			const on = !ids.has(id);
			const [from, to] = [list.indexOf(last), list.indexOf(id)].sort((a, b) => a - b);
			for (const each of range && from >= 0 ? list.slice(from, to + 1) : [id]) ids[on ? "add" : "delete"](each);
			last = id;
			render();
		},
	};
	return self;
}

// each runs an action for every record, six at a time, and shows the progress and
// what failed in a banner. It returns the results.
export async function each(banner, title, list, action, width = 6) {
	if (!list.length) return [];
	const { panel, bar, text, signal } = showProgress(banner, title);
	const [queue, done, failed] = [list.entries(), [], []];
	let lost; // a failure that the others would have too
	let waits = 20; // in all, when the server asks for them
	// patiently runs an action again when the server says when.
	const patiently = (action) => action().catch(async (error) => {
		if (signal.aborted || !error.retryAfter || !waits--) throw error;
		text.textContent = `${title}: the server asks to wait ${error.retryAfter} s`;
		await new Promise((resolve) => {
			setTimeout(resolve, error.retryAfter * 1000);
			signal.addEventListener("abort", resolve);
		});
		if (signal.aborted) throw error;
		return patiently(action);
	});
	const worker = async () => {
		for (const [i, one] of queue) {
			if (signal.aborted || lost) return;
			text.textContent = `${title}: ${i + 1} of ${list.length}, ${one.name}`;
			[bar.max, bar.value] = [list.length, i];
			const progress = ({ loaded, total }) => (text.textContent = `${title}: ${i + 1} of ${list.length}, ${one.name}, ${percent(loaded, total)}`);
			try {
				done.push(await patiently(() => action(one, signal, progress)));
			} catch (error) {
				if (signal.aborted) return;
				failed.push(h("li", h("b", one.name), `: ${error.message}`));
				lost ||= [0, 401, 403].includes(error.status);
			}
		}
	};
	await Promise.all(Array.from({ length: width }, worker));
	panel.remove();
	const left = list.length - done.length - failed.length;
	if (failed.length) showProblem(banner, [h("strong", `${title}: ${failed.length} of ${list.length} failed`), h("ul", failed.slice(0, 20)), left > 0 && h("p", `${left.toLocaleString("en")} more skipped.`)]);
	return done;
}

const atOnce = 1000; // records that one request changes

// inParts runs a request with the ids of each thousand records, which changes all of
// them or none. It returns the changed ones. It throws the error of the only request.
export async function inParts(banner, title, list, run) {
	const parts = Array.from({ length: Math.ceil(list.length / atOnce) }, (_, i) => list.slice(i * atOnce, (i + 1) * atOnce));
	const named = parts.map((part) => ({ name: `${part[0].name} and ${part.length - 1} more`, part }));
	let last; // error
	const done = await each(banner, title, named, async ({ part }) => {
		await run(part.map(({ id }) => id)).catch((error) => {
			throw last = error;
		});
		return part;
	}, 1);
	if (parts.length === 1 && !done.length && endProblem(banner)) throw last; // not canceled
	return done.flat();
}

export const percent = (loaded, total) => `${bytes(loaded)} of ${bytes(total)}, ${Math.floor((100 * loaded) / total)} %`;

// saveBlob saves a blob in the browser's downloads.
export function saveBlob(blob, name) {
	const url = URL.createObjectURL(blob);
	h("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60_000); // the download has begun by then
}

const titles = { 401: "Key rejected", 403: "Not permitted", 404: "Not found", 412: "Changed by someone else", 413: "Too large", 429: "Too many requests" };

// errorContent shows an error: a heading, the message and the request id.
export function errorContent({ status, requestId, retryAfter, message, login, missing, rejected }) {
	if (missing) {
		const [name, hint] = access.describe(missing);
		return [h("strong", `${name} missing`), h("p", hint), button(`Enter the ${name.toLowerCase()}`, { kind: "small", onclick: () => access.ask() })];
	}
	let title = login ? "Login required" : titles[status] ?? (status >= 500 ? "Server error" : "Request rejected");
	if (!status) title = status === undefined ? "Page error" : navigator.onLine ? "Server unreachable" : "You are offline";
	const text = message.replace(/^[a-z]+ /, (word) => word[0].toUpperCase() + word.slice(1)) + (/[./]$/.test(message) ? "" : ".");
	const other = rejected && button(`Enter another ${access.describe(rejected)[0].toLowerCase()}`, { kind: "small", onclick: () => access.ask(rejected) });
	return [h("strong", title), h("p", text, retryAfter ? countdown(retryAfter) : ""), other, requestId && h("p.hint", "Request ", h("code", requestId))];
}

// countdown tells when to retry.
function countdown(seconds) {
	const node = h("span");
	const end = Date.now() + seconds * 1000;
	const write = () => {
		const left = Math.ceil((end - Date.now()) / 1000);
		node.textContent = left > 0 ? ` Retry in ${left} s.` : " Retry now.";
		if (left <= 0 || (timer && !node.isConnected)) clearInterval(timer);
	};
	let timer;
	write();
	timer = setInterval(write, 1000);
	return node;
}

// notice fills an otherwise empty screen.
const notice = (symbol, content, ...actions) => h("div.notice", h("div.emblem", icon(symbol)), content, h("div.actions", actions));

export const emptyState = (symbol, title, text, ...actions) => notice(symbol, [h("strong", title), h("p", text)], actions);

export const errorState = (error, retry) =>
	notice("warning", errorContent(error), retry && button("Retry", { symbol: "reload", onclick: retry }));

// endProblem removes the problem that a banner shows, and reports whether there was one.
// The progress of what is running stays.
function endProblem(banner) {
	const shown = banner.querySelector(":scope > .problem");
	shown?.remove();
	return Boolean(shown);
}

// showProblem shows a problem in a banner above the content.
export function showProblem(banner, content, after = "title") {
	const node = h("div.problem", { tabindex: "-1" }, content, button("Dismiss", { kind: "small", onclick() {
		node.remove();
		focusFirst(after);
	} }));
	endProblem(banner);
	banner.prepend(node);
	node.focus();
}

// showLoadProblem shows that a list could not be loaded again. What is shown stays.
export function showLoadProblem(banner, error, retry) {
	showProblem(banner, [errorContent(error), button("Retry", { kind: "small", symbol: "reload", onclick() {
		endProblem(banner);
		retry();
	} })]);
	banner.firstChild.classList.add("load");
}

// endLoadProblem is called when the list has been loaded again.
export const endLoadProblem = (banner) => banner.querySelector(".load")?.remove();

// showProgress shows a progress bar and a cancel button in a banner, or in the open dialog,
// which covers it. The caller removes the panel.
export function showProgress(banner, name) {
	const stop = new AbortController();
	const bar = h("progress", { "aria-label": name });
	const text = h("p", `${name}…`);
	const panel = h("div.panel", text, bar, button("Cancel", { kind: "small", onclick: () => stop.abort() }));
	endProblem(banner);
	([...document.querySelectorAll("dialog[open]")].pop() ?? banner).append(panel);
	return { panel, bar, text, signal: stop.signal };
}

export const heading = (title, summary, tools = "") =>
	h("div.head", h("div", h("h1#title", { tabindex: "-1" }, title), h("p.summary", { role: "status" }, summary)), tools);

export const skeleton = (kind) =>
	h(`div.skeleton.${kind}`, { role: "img", "aria-label": "Loading" }, Array.from({ length: 8 }, () => h("div")));
