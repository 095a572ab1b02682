import { access, base } from "./access.js";
import { apiURL } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { curl } from "./format.js";
import { button, codeBlock, copyButton, openDialog, saveBlob } from "./ui.js";

// showRawKey shows a raw key, which cannot be shown again. Until the user has
// saved it, the first attempt to close only warns.
export function showRawKey(title, { apiKey, key }) {
	let saved = false;
	const warning = h("p.problem", { hidden: true, tabindex: "-1" }, "The key has not been copied and cannot be shown again. Close again to discard it.");
	const markSaved = () => {
		saved = true;
		warning.hidden = true;
	};
	const file = `# ${key.name.replaceAll(/\s+/g, " ")}\nCANVASBACK_URL=${base.href.replace(/\/$/, "")}\nCLIENT_API_KEY=${apiKey}\n`;
	const copy = copyButton(() => apiKey, { name: "Copy key", kind: "main", copied: markSaved });
	const { close } = openDialog({
		title,
		closing() {
			if (saved) return true;
			saved = true;
			warning.hidden = false;
			warning.focus();
			return false;
		},
		closed: () => `key-${key.id}-menu`,
	}, h("div.stack",
		h("p", "Store the key of ", h("b", key.name), " now. The server stores only a digest, so it is shown once."),
		h("div.secret", h("code", { oncopy: markSaved }, apiKey), copy),
		h("div.actions",
			button("Download .env", { symbol: "down", onclick() {
				saveBlob(new Blob([file], { type: "text/plain" }), "canvasback.env");
				markSaved();
			} }),
			button("Use it in this console", { symbol: "key", onclick({ currentTarget }) {
				access.set("client", apiKey, access.isStored("admin"));
				fill(currentTarget, icon("check"), "In use in this console");
				markSaved();
			} })),
		codeBlock("A request with it", curl({ method: "GET", url: apiURL("symbol/folders"), raw: apiKey })).node,
		warning,
		h("footer", button("Done", { kind: "main", onclick: () => close() }))));
	copy.focus();
}
