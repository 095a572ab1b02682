import { access } from "./access.js";
import { address, call } from "./api.js";
import { fill, h } from "./dom.js";
import { download, readSkipped } from "./download.js";
import { bytes, curl, plural } from "./format.js";
import { busy, code, explained, field, form, head, say, table, trouble } from "./ui.js";

const path = "viewer/exports/";

export function exportsScreen(root, signal) {
	const list = h("textarea", { required: true, rows: "4", spellcheck: "false", autocomplete: "off", placeholder: "https://", oninput: paint });
	const urls = h("input", { type: "checkbox", onchange: paint });
	const go = h("button.button.main");
	const strip = h("div");
	const result = h("div.stack");
	const command = code("The same with curl");
	const main = form("card.stack", () => {
		fill(result);
		busy(go, run).catch((error) => signal.aborted || trouble(strip, [explained(error), skipped(error.skipped)]));
	}, h("h2", "Download"),
	field("Sources", list, "The addresses of source files as they were registered, one a line. Several come as a zip."),
	h("label.check", urls, "Show the addresses of the files instead"),
	h("div.actions", go), strip, result, command.node);
	paint();
	root.append(head("Exports", "Exported files of source drawings, one by one or as a zip"),
		h("div.columns", main, registration(signal, (source) => {
			list.value = `${list.value.trim()}\n${source}`.trim();
			paint();
		})));
	return () => {};

	function wanted() {
		const sources = list.value.split("\n").map((line) => line.trim()).filter(Boolean);
		const many = sources.length > 1;
		return {
			sources,
			many,
			url: `${path}download${many ? "-batch" : ""}${urls.checked ? "?responseType=urls" : ""}`,
			body: many ? { items: sources.map((sourceFileUrl) => ({ sourceFileUrl })) } : { sourceFileUrl: sources[0] ?? "" },
		};
	}

	function paint() {
		const { sources, many, url, body } = wanted();
		go.textContent = urls.checked ? "Show addresses" : many ? `Download ${plural(sources.length, "file")} as a zip` : "Download";
		command.write(curl({ url: address(url), flags: urls.checked ? "" : "-OJ ", key: "client", body }));
	}

	async function run() {
		const { sources, many, url, body } = wanted();
		if (urls.checked) return fill(result, addresses(sources, await call("POST", url, { key: "client", body, signal })));
		const file = await download(strip, "Waiting for the file", many ? "canvas-exports.zip" : "canvas-export", signal, "POST", url, body);
		if (!file) return;
		// The file is there, whatever comes of the list.
		const left = many && await readSkipped(file.blob).then(skipped).catch(() => h("p", "Its manifest.json, which lists files left out, cannot be read."));
		fill(result, h("p", h("b", file.name), `, ${bytes(file.blob.size)}, is in your downloads.`), left);
	}
}

// addresses says of each source where its file is, or why it is not there. The
// answer has both in the order of the request.
function addresses(sources, { exportedUrl, exportedUrls = [exportedUrl], skipped: left = [] }) {
	const [found, missing] = [exportedUrls.values(), [...left]];
	return table("Addresses", ["Source", "Exported file"], sources.map((source) => {
		if (missing[0]?.sourceFileUrl === source) return [source, h("i", missing.shift().reason)];
		const url = found.next().value;
		return [source, h("a", { href: url, target: "_blank" }, url)];
	}));
}

const skipped = (list) => list?.length > 0 && [h("h3", `${plural(list.length, "file")} left out`), table("Files left out", ["Source", "Why"], list.map((one) => [one.sourceFileUrl, one.reason]))];

function registration(signal, registered) {
	const strip = h("div");
	const go = h("button.button.main", "Register");
	const input = (props) => h("input", { autocomplete: "off", spellcheck: "false", ...props });
	const source = input({ required: true });
	const exported = input({ required: true, type: "url", placeholder: "https://" });
	const fileName = input();

	// Who may register is an option of the server. A client key is tried first;
	// the answer says if it is the admin key that is wanted.
	const send = (body, key = "client") => call("POST", `${path}register`, { key, body, signal }).catch((error) => {
		if (key === "admin" || !error.message.includes("x-admin-key") || !access.get("admin")) throw error;
		return send(body, "admin");
	});

	return form("card.stack", ({ target }) => busy(go, async () => {
		const { record } = await send({ sourceFileUrl: source.value, exportedUrl: exported.value, fileName: fileName.value });
		fill(strip);
		registered(record.sourceFileUrl);
		say(record.createdAt === record.updatedAt ? "Registered." : "Registered in place of the former file.");
		target.reset();
		source.focus();
	}).catch((error) => signal.aborted || trouble(strip, explained(error))), h("h2", "Register"),
	h("p.hint", "Say where the exported file of a source lies."),
	field("Source", source, "What it will be asked for by."),
	field("Exported file", exported, "A public http(s) address, or one that the server allows."),
	field("File name (optional)", fileName, "What a download is called."),
	h("div.actions", go), strip);
}
