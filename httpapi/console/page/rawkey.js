import { access, base } from "./access.js";
import { address } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { curl } from "./format.js";
import { button, code, copyButton, openDialog, save } from "./ui.js";

// showRawKey shows a raw key, the only time that it can be seen. While it has
// not been taken, the first attempt to close is only a warning.
export function showRawKey(title, { apiKey, key }) {
	let taken = false;
	const warning = h("p.problem", { hidden: true, tabindex: "-1" }, "The key has not been copied, and cannot be shown again. Close once more to leave it.");
	const take = () => {
		taken = true;
		warning.hidden = true;
	};
	const file = `# ${key.name.replaceAll(/\s+/g, " ")}\nCANVASBACK_URL=${base.href.replace(/\/$/, "")}\nCLIENT_API_KEY=${apiKey}\n`;
	const copy = copyButton(() => apiKey, { name: "Copy key", kind: "main", copied: take });
	const { close } = openDialog({
		title,
		closing() {
			if (taken) return true;
			taken = true;
			warning.hidden = false;
			warning.focus();
			return false;
		},
		closed: () => `key-${key.id}-menu`,
	}, h("div.stack",
		h("p", "Store the key of ", h("b", key.name), " now. The server keeps only a digest of it, so it is shown this once."),
		h("div.secret", h("code", { oncopy: take }, apiKey), copy),
		h("div.actions",
			button("Download .env", { symbol: "down", onclick() {
				save(new Blob([file], { type: "text/plain" }), "canvasback.env");
				take();
			} }),
			button("Use it in this console", { symbol: "key", onclick({ currentTarget }) {
				access.hold("client", apiKey, access.kept("admin"));
				fill(currentTarget, icon("check"), "In use in this console");
				take();
			} })),
		code("A request with it", curl({ method: "GET", url: address("symbol/folders"), raw: apiKey })).node,
		warning,
		h("footer", button("Done", { kind: "main", onclick: () => close() }))));
	copy.focus();
}
