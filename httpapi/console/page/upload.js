import { call } from "./api.js";
import { fill, h } from "./dom.js";
import { plural } from "./format.js";
import { write } from "./symboldata.js";
import { busy, button, explained, openDialog, refocus, say, table, trouble, working } from "./ui.js";

// addFiles makes symbols of files, one after the other so that they stand in
// the order in which they were chosen, and calls added with each. What cannot
// be added is listed in the strip.
export async function addFiles(folder, files, strip, signal, added) {
	const { bar, text, signal: mine } = working(strip, "Adding images", signal);
	const refused = [];
	let made = 0;
	for (const [at, file] of files.entries()) {
		text.textContent = `Adding ${at + 1} of ${files.length} to ${folder.name}: ${file.name}`;
		[bar.max, bar.value] = [files.length, at];
		try {
			added(await call("POST", `symbol/folders/${folder.id}/symbols`, { key: "client", body: await write(file), signal: mine }));
			made++;
		} catch (error) {
			if (mine.aborted) break;
			refused.push(h("li", h("b", file.name), `: ${error.message}`));
			if ([0, 401, 403, 404].includes(error.status)) break; // the next one would fare no better
		}
	}
	if (signal.aborted) return;
	fill(strip);
	if (made) say(`${plural(made, "symbol")} added to ${folder.name}.`);
	if (!refused.length) return refocus("add-images");
	const left = files.length - made - refused.length;
	trouble(strip, [h("strong", `${plural(refused.length, "file")} could not be added`), h("ul", refused), left > 0 && h("p", `${plural(left, "file")} behind it not tried.`)], "add-images");
}

// importFolder asks the server what of a zip it would take, shows that, and
// then has it taken.
export async function importFolder(folder, file, imported) {
	const content = h("div.stack", h("p", `Looking into ${file.name}…`), h("progress", { "aria-label": "Looking into the zip" }));
	const { dialog, close } = openDialog({ title: `Import into ${folder.name}` }, content);
	const upload = (query) => call("POST", `symbol/folders/${folder.id}/import${query}`, { key: "client", body: file, headers: { "Content-Type": "application/zip" } });
	const attempt = async (action) => {
		await action().catch((error) => fill(content, h("div.problem", explained(error)), reasons("refused", error.refused), h("footer", button("Close", { kind: "main", onclick: close }))));
		dialog.querySelector("footer .main")?.focus();
	};
	const go = button("", { kind: "main", onclick: () => busy(go, () => attempt(async () => {
		const { imported: count } = await upload("");
		close();
		await imported();
		say(`${plural(count, "symbol")} imported into ${folder.name}.`);
	})) });
	await attempt(async () => {
		const { imported: count, files = [], ignored } = await upload("?dryRun=true");
		go.textContent = `Import ${plural(count, "symbol")}`;
		fill(content,
			h("p", count ? `${plural(count, "symbol")} will be added to ${folder.name}. What is there stays.` : "There is no symbol in this zip."),
			files.length ? table("Files to import", ["File", "Symbol", "Type"], files.map((one) => [one.file, one.name, one.type])) : "",
			reasons("left out", ignored),
			h("footer", button("Cancel", { kind: count ? "quiet" : "main", onclick: close }), count && go));
	});
}

const reasons = (what, list) => list?.length > 0 && table(`Files ${what}`, ["File", `Why it is ${what}`], list.map((one) => [one.file, one.reason]));
