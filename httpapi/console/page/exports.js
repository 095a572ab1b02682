import { apiURL, call } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, curl, plural } from "./format.js";
import { registered } from "./registered.js";
import { announce, codeBlock, errorContent, field, form, heading, runOnce, showProblem, table } from "./ui.js";

const path = "viewer/exports/";

export function exportsScreen(root, signal) {
	const list = h("textarea", { required: true, rows: "4", spellcheck: "false", autocomplete: "off", placeholder: "https://", oninput: render });
	const urls = h("input", { type: "checkbox", onchange: render });
	const go = h("button.button.main");
	const banner = h("div");
	const result = h("div.stack");
	const command = codeBlock("The same with curl");
	const main = form("card.stack", () => {
		fill(result);
		runOnce(go, run).catch((error) => signal.aborted || showProblem(banner, [errorContent(error), skipped(error.skipped)]));
	}, h("h2", "Download"),
	field("Sources", list, "Registered source URLs, one per line. Several files are downloaded as a zip."),
	h("label.check", urls, "Show the URLs of the files instead"),
	h("div.actions", go), banner, result, command.node);
	const all = registered(signal, {
		select,
		download(source) {
			select(source, true);
			list.value = source;
			render();
			main.requestSubmit();
		},
	});
	render();
	root.append(heading("Exports", "Exported files of source drawings, one by one or as a zip"),
		h("div.columns", main, registration(signal, (source) => {
			select(source, true);
			all.load();
		})), all.node);
	return () => all.load();

	function chosen() {
		return list.value.split("\n").map((line) => line.trim()).filter(Boolean);
	}

	function select(source, add) {
		list.value = [...chosen().filter((one) => one !== source), ...(add ? [source] : [])].join("\n");
		render();
	}

	function request() {
		const sources = chosen();
		const many = sources.length > 1;
		return {
			sources,
			many,
			url: `${path}download${many ? "-batch" : ""}${urls.checked ? "?responseType=urls" : ""}`,
			body: many ? { items: sources.map((sourceFileUrl) => ({ sourceFileUrl })) } : { sourceFileUrl: sources[0] ?? "" },
		};
	}

	function render() {
		const { sources, many, url, body } = request();
		go.textContent = urls.checked ? "Show URLs" : many ? `Download ${plural(sources.length, "file")} as a zip` : "Download";
		all.show(sources);
		command.write(curl({ url: apiURL(url), flags: urls.checked ? "" : "-OJ ", key: "client", body }));
	}

	async function run() {
		const { sources, url, body } = request();
		if (urls.checked) return fill(result, urlTable(sources, await call("POST", url, { key: "client", body, signal })));
		const link = await call("POST", `${path}links`, { key: "client", body, signal });
		fill(banner);
		// The browser downloads by itself, also after this screen is left.
		h("a", { href: new URL(link.url, apiURL(`${path}links`)).href, download: link.fileName, rel: "noreferrer" }).click();
		const size = link.size === null ? "size unknown" : bytes(link.size);
		announce(`${link.fileName} is in your browser's downloads.`);
		fill(result, h("p", h("b", link.fileName), `, ${size}, is in your browser's downloads${link.resumable ? "" : ". It cannot be paused"}.`), skipped(link.skipped));
	}
}

// urlTable shows the URL of each source or the reason why it was skipped. Both
// lists of the response are in the order of the request.
function urlTable(sources, { exportedUrl, exportedUrls = [exportedUrl], skipped = [] }) {
	const [found, missing] = [exportedUrls.values(), [...skipped]];
	return table("URLs", ["Source", "Exported file"], sources.map((source) => {
		if (missing[0]?.sourceFileUrl === source) return [source, h("i", missing.shift().reason)];
		const url = found.next().value;
		return [source, h("a", { href: url, target: "_blank" }, url)];
	}));
}

const skipped = (list) => list?.length > 0 && [h("h3", `${plural(list.length, "file")} skipped`), table("Skipped files", ["Source", "Reason"], list.map((one) => [one.sourceFileUrl, one.reason]))];

function registration(signal, registered) {
	const banner = h("div");
	const go = h("button.button.main", "Register");
	const input = (props) => h("input", { autocomplete: "off", spellcheck: "false", ...props });
	const source = input({ required: true });
	const exported = input({ required: true, type: "url", placeholder: "https://" });
	const fileName = input();

	// The configuration of the server decides which key is required.
	const send = (body) => call("POST", `${path}register`, { key: ["client", "admin"], body, signal });

	return form("card.stack", ({ target }) => runOnce(go, async () => {
		const { record } = await send({ sourceFileUrl: source.value, exportedUrl: exported.value, fileName: fileName.value });
		fill(banner);
		registered(record.sourceFileUrl);
		announce(record.createdAt === record.updatedAt ? "Registered." : "Registered. The previous export was replaced.");
		target.reset();
		source.focus();
	}).catch((error) => signal.aborted || showProblem(banner, errorContent(error))), h("h2", "Register"),
	h("p.hint", "Set the URL of the exported file of a source."),
	field("Source", source, "The URL that identifies the source."),
	field("Exported file", exported, "An http(s) URL that the server may fetch."),
	field("File name (optional)", fileName, "The name of downloads."),
	h("div.actions", go), banner);
}
