import { call } from "./api.js";
import { fill, h } from "./dom.js";
import { plural } from "./format.js";
import { encode } from "./symboldata.js";
import { announce, button, errorContent, focusFirst, openDialog, runOnce, showProblem, showProgress, table } from "./ui.js";

// addFiles creates symbols from files, one at a time to keep their order, and
// calls added with each. The banner lists the files that cannot be added.
export async function addFiles(folder, files, banner, signal, added) {
	const { bar, text, signal: either } = showProgress(banner, "Adding images", signal);
	const rejected = [];
	let count = 0;
	for (const [i, file] of files.entries()) {
		text.textContent = `Adding ${i + 1} of ${files.length} to ${folder.name}: ${file.name}`;
		[bar.max, bar.value] = [files.length, i];
		try {
			added(await call("POST", `symbol/folders/${folder.id}/symbols`, { key: "client", body: await encode(file), signal: either }));
			count++;
		} catch (error) {
			if (either.aborted) break;
			rejected.push(h("li", h("b", file.name), `: ${error.message}`));
			if ([0, 401, 403, 404].includes(error.status)) break; // the other files would fail too
		}
	}
	if (signal.aborted) return;
	fill(banner);
	if (count) announce(`${plural(count, "symbol")} added to ${folder.name}.`);
	if (!rejected.length) return focusFirst("add-images");
	const left = files.length - count - rejected.length;
	showProblem(banner, [h("strong", `${plural(rejected.length, "file")} could not be added`), h("ul", rejected), left > 0 && h("p", `${plural(left, "more file")} skipped.`)], "add-images");
}

// importFolder shows the result of a dry run and imports a zip on confirmation.
export async function importFolder(folder, file, imported) {
	const content = h("div.stack", h("p", `Checking ${file.name}…`), h("progress", { "aria-label": "Checking the zip" }));
	const { dialog, close } = openDialog({ title: `Import into ${folder.name}` }, content);
	const upload = (query) => call("POST", `symbol/folders/${folder.id}/import${query}`, { key: "client", body: file, headers: { "Content-Type": "application/zip" } });
	const attempt = async (action) => {
		await action().catch((error) => fill(content, h("div.problem", errorContent(error)), reasons("Rejected files", error.refused), h("footer", button("Close", { kind: "main", onclick: close }))));
		dialog.querySelector("footer .main")?.focus();
	};
	const go = button("", { kind: "main", onclick: () => runOnce(go, () => attempt(async () => {
		const { imported: count } = await upload("");
		close();
		await imported();
		announce(`${plural(count, "symbol")} imported into ${folder.name}.`);
	})) });
	await attempt(async () => {
		const { imported: count, files = [], ignored } = await upload("?dryRun=true");
		go.textContent = `Import ${plural(count, "symbol")}`;
		fill(content,
			h("p", count ? `${plural(count, "symbol")} will be added to ${folder.name}. Existing symbols are kept.` : "This zip contains no symbols."),
			files.length ? table("Files to import", ["File", "Symbol", "Type"], files.map((one) => [one.file, one.name, one.type])) : "",
			reasons("Ignored files", ignored),
			h("footer", button("Cancel", { kind: count ? "quiet" : "main", onclick: close }), count && go));
	});
}

const reasons = (title, list) => list?.length > 0 && table(title, [title, "Reason"], list.map((one) => [one.file, one.reason]));
