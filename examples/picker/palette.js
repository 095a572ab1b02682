// <canvasback-palette> shows the symbol library in 320 pixels:
//
//	const palette = document.querySelector("canvasback-palette");
//	palette.client = createClient({ getToken });
//	palette.addEventListener("pick", ({ detail: { id, name, type, url, blob } }) => ...);
//
// palette.dropped(event.dataTransfer) returns the same for a symbol that was dropped. url is
// for <img>, soon; blob() resolves to the image.

const dragType = "application/x-canvasback-symbol";
const fields = "id,name,type,updatedAt";
const pageSize = 200;
const pause = 250; // milliseconds without typing
const maxRetryAfter = 10_000; // milliseconds

const style = new CSSStyleSheet();
style.replaceSync(`
	:host { color-scheme: light dark; background: Canvas; color: CanvasText; font: 14px system-ui }
	:host { display: flex; flex-direction: column; gap: 8px; width: 320px; max-width: 100%; padding: 8px; box-sizing: border-box }
	label { display: grid; gap: 2px }
	select, input { font: inherit; min-width: 0; padding: 4px }
	ul { flex: 1; min-height: 0; overflow-y: auto; margin: 0; padding: 2px }
	ul { display: grid; grid: auto-flow min-content / repeat(auto-fill, minmax(84px, 1fr)); gap: 4px }
	li { list-style: none; padding: 4px; border-radius: 4px; text-align: center; overflow-wrap: anywhere; hyphens: auto; cursor: pointer }
	li { content-visibility: auto; contain-intrinsic-size: auto 92px } /* lay out what is seen */
	li[aria-selected=true] { outline: 2px solid LinkText }
	li[aria-disabled=true] { opacity: 0.75; cursor: default }
	img { display: block; width: 100%; height: 64px; padding: 4px; box-sizing: border-box; object-fit: contain }
	img { background: #fff; border-radius: 4px; margin-bottom: 2px }
	p { margin: 0; min-height: 1.3em }
`);

export class CanvasbackPalette extends HTMLElement {
	#client;
	#connection = new AbortController(); // ends with the element
	#reading = new AbortController(); // ends with the list that is shown
	#pages; // the rest of the list
	#complete = true; // there is no rest
	#loading = false;
	#symbols = [];
	#options = new Map(); // elements by symbol, as JSON
	#active; // symbol
	#typing; // timer
	#failures = 0; // since the last change
	#observer = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && this.#readMore(), {
		rootMargin: "300px", scrollMargin: "300px", // of the page, of the list
	});
	#folders;
	#search;
	#list;
	#status;
	#end = document.createElement("li"); // of the list; comes into view when it is scrolled there

	constructor() {
		super();
		const root = this.attachShadow({ mode: "open" });
		root.adoptedStyleSheets = [style];
		root.innerHTML = `
			<label>Folder <select></select></label>
			<label>Search all folders <input type="search" spellcheck="false"></label>
			<ul role="listbox" aria-label="Symbols" tabindex="0"></ul>
			<p role="status"></p>`;
		[this.#folders, this.#search, this.#list, this.#status] = root.querySelectorAll("select, input, ul, p");
		this.#end.role = "presentation";
		this.#list.append(this.#end);
		this.#folders.addEventListener("change", () => {
			this.#search.value = "";
			this.#open();
		});
		this.#search.addEventListener("input", () => {
			clearTimeout(this.#typing);
			this.#typing = setTimeout(() => this.#open(), pause);
		});
		this.#list.addEventListener("focus", () => this.#activate(this.#active ?? this.#symbols[0]));
		this.#list.addEventListener("keydown", (event) => this.#keydown(event));
		this.#list.addEventListener("click", ({ target }) => this.#pick(this.#symbolOf(target)));
		this.#list.addEventListener("dragstart", ({ target, dataTransfer }) => {
			dataTransfer.setData(dragType, JSON.stringify(this.#detail(this.#symbolOf(target))));
			dataTransfer.effectAllowed = "copy";
		});
	}

	// client is a client of the API.
	set client(client) {
		this.#client = client;
		this.#connect();
	}

	// dropped returns the symbol of a drag, or undefined.
	dropped(dataTransfer) {
		const text = dataTransfer.getData(dragType);
		return text ? this.#withBlob(JSON.parse(text)) : undefined;
	}

	connectedCallback() {
		this.role ??= "region";
		this.ariaLabel ??= "Symbols";
		this.#connect();
	}

	disconnectedCallback() {
		this.#connection.abort();
		this.#reading.abort();
	}

	// connect follows the changes of the library. The first one names everything. While they
	// cannot be followed, the library is read at each attempt.
	#connect() {
		this.#connection.abort();
		if (!this.#client || !this.isConnected) return;
		this.#connection = new AbortController();
		const { signal } = this.#connection;
		const listener = (change) => {
			this.#failures = 0;
			this.#change(change);
		};
		const onerror = () => this.#retry(() => this.#connect(), signal);
		this.#client.changes(listener, { signal, onerror }).catch(() => {
			if (signal.aborted) return;
			this.#change({ folders: true, folderIds: null });
			onerror();
		});
	}

	// retry calls again what has failed, unless signal is aborted.
	#retry(again, signal) {
		if (signal.aborted) return;
		const timer = setTimeout(again, Math.min(1000 * 2 ** this.#failures++, maxRetryAfter));
		signal.addEventListener("abort", () => clearTimeout(timer));
	}

	async #change(change) {
		const { folders, folderIds } = change;
		const { signal } = this.#connection;
		const shown = this.#folders.value;
		try {
			if (folders) await this.#readFolders(signal);
		} catch (error) {
			if (!signal.aborted) this.#status.textContent = error.message;
			this.#retry(() => this.#change(change), signal);
			return;
		}
		const isShown = this.#search.value || !folderIds || folderIds.includes(Number(this.#folders.value)) || this.#folders.value !== shown;
		if (isShown) this.#read(this.#symbols.length);
	}

	async #readFolders(signal) {
		const folders = [];
		for await (const page of this.#client.pages("listFolders", { signal })) folders.push(...page);
		folders.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
		const current = Number(this.#folders.value);
		this.#folders.replaceChildren(...folders.map(({ id, name }) => new Option(name, id, false, id === current)));
	}

	// open shows the first page of a folder or a search. Until it is there, nothing is.
	#open() {
		this.#list.scrollTop = 0;
		this.#symbols = [];
		this.#render();
		this.#status.textContent = "Loading…";
		this.#read(0);
	}

	// read shows at least count symbols of a folder or a search.
	#read(count) {
		this.#reading.abort();
		this.#reading = new AbortController();
		const options = { fields, limit: pageSize, signal: this.#reading.signal };
		const text = this.#search.value.trim();
		if (text) this.#pages = this.#client.pages("searchSymbols", { q: text, ...options });
		else if (this.#folders.value) this.#pages = this.#client.pages("listSymbols", this.#folders.value, options);
		else this.#pages = [].values();
		this.#readPages([], count);
	}

	#readMore() {
		if (!this.#complete && !this.#loading) this.#readPages([...this.#symbols], this.#symbols.length + 1);
	}

	// readPages adds pages to symbols until there are at least count, and shows them.
	async #readPages(symbols, count) {
		const { signal } = this.#reading;
		this.#loading = true;
		try {
			let isShort; // which costs no request if it is the last one
			do {
				const { value = [], done } = await this.#pages.next();
				signal.throwIfAborted();
				symbols.push(...value);
				this.#complete = done;
				isShort = value.length < pageSize;
			} while ((symbols.length < count || isShort) && !this.#complete);
			this.#symbols = symbols;
			this.#render();
		} catch (error) {
			if (!signal.aborted) this.#status.textContent = error.message;
			this.#retry(() => this.#read(count), signal);
		} finally {
			if (!signal.aborted) this.#loading = false;
		}
	}

	// render keeps the elements of symbols that have not changed.
	#render() {
		const options = new Map();
		let next = this.#list.firstChild;
		for (const symbol of this.#symbols) {
			const key = JSON.stringify(symbol);
			const option = this.#options.get(key) ?? this.#option(symbol);
			options.set(key, option);
			if (option === next) next = next.nextSibling;
			else this.#list.insertBefore(option, next);
		}
		while (next !== this.#end) {
			next = next.nextSibling;
			next.previousSibling.remove();
		}
		this.#options = options;
		this.#activate(this.#symbols.find(({ id }) => id === this.#active?.id));
		const count = this.#symbols.length;
		this.#status.textContent = `${count.toLocaleString()}${this.#complete ? "" : "+"} symbol${count === 1 ? "" : "s"}`;
		this.#observer.unobserve(this.#end);
		this.#observer.observe(this.#end); // reports it again if it is still in view
	}

	#option(symbol) {
		const option = document.createElement("li");
		const image = new Image();
		Object.assign(option, { id: `symbol-${symbol.id}`, role: "option", ariaSelected: "false", draggable: true });
		Object.assign(image, { alt: "", loading: "lazy", decoding: "async", draggable: false });
		option.append(image, symbol.name);
		const disable = () => {
			image.replaceWith("No image: ");
			Object.assign(option, { ariaDisabled: "true", draggable: false });
		};
		const load = async (attempt) => {
			image.src = await this.#client.imageUrl(symbol.id, { v: symbol.updatedAt, attempt });
		};
		// check shows that there is no image, unless the server may send it later.
		const check = ({ status, retryAfter }) => {
			if (status >= 400 && status < 500 && !retryAfter) disable();
			else setTimeout(() => option.isConnected && load(Date.now()).catch(check), maxRetryAfter * (0.5 + Math.random() / 2));
		};
		const loadLast = () => {
			image.onerror = disable;
			return load(Date.now());
		};
		image.onerror = () => {
			image.onerror = () => this.#client.getSymbolImage(symbol.id).then(loadLast).catch(check);
			load(2).catch(check); // the token may have expired
		};
		load().catch(check);
		return option;
	}

	#symbolOf(node) {
		return this.#symbols.find(({ id }) => node.closest("li")?.id === `symbol-${id}`);
	}

	#optionOf(symbol) {
		return this.#options.get(JSON.stringify(symbol));
	}

	#activate(symbol) {
		for (const option of this.#list.querySelectorAll("[aria-selected=true]")) option.ariaSelected = "false";
		this.#active = symbol;
		const option = this.#optionOf(symbol);
		this.#list.setAttribute("aria-activedescendant", option?.id ?? "");
		if (option) option.ariaSelected = "true";
	}

	#keydown(event) {
		const at = this.#symbols.indexOf(this.#active);
		const columns = getComputedStyle(this.#list).gridTemplateColumns.split(" ").length;
		const last = this.#symbols.length - 1;
		const isInLastRow = Math.floor(at / columns) === Math.floor(last / columns);
		const down = isInLastRow ? at : Math.min(at + columns, last);
		const keys = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: down, Home: 0, End: last };
		const to = keys[event.key];
		if (event.key === "Enter" || event.key === " ") this.#pick(this.#active);
		else if (to === undefined) return;
		event.preventDefault();
		if (!this.#symbols[to]) return;
		this.#activate(this.#symbols[to]);
		this.#optionOf(this.#active).scrollIntoView({ block: "nearest" });
	}

	#pick(symbol) {
		this.#activate(symbol ?? this.#active);
		if (!symbol || this.#optionOf(symbol).ariaDisabled) return;
		this.dispatchEvent(new CustomEvent("pick", { detail: this.#detail(symbol), bubbles: true, composed: true }));
	}

	#detail(symbol) {
		const url = this.#optionOf(symbol).querySelector("img").src;
		return this.#withBlob({ id: symbol.id, name: symbol.name, type: symbol.type, url });
	}

	#withBlob(symbol) {
		return { ...symbol, blob: async () => (await this.#client.getSymbolImage(symbol.id)).blob() };
	}
}

customElements.define("canvasback-palette", CanvasbackPalette);
