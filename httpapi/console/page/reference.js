import { apiURL, base, call } from "./api.js";
import { byId, fill, h } from "./dom.js";
import { curl } from "./text.js";
import { codeBlock, emptyState, errorState, heading, searchField, skeleton, table } from "./ui.js";

// referenceScreen shows the API's OpenAPI document. It supports the parts of
// OpenAPI that the document uses.
export function referenceScreen(root) {
	const body = h("div");
	const none = emptyState("folder", "No operation matches", "Search by path, method or description.");
	const search = searchField("Search", "Search operations", () => {
		const words = search.value.toLowerCase().split(/\s+/);
		for (const one of body.querySelectorAll(".operation")) one.hidden = !words.every((word) => one.dataset.text.includes(word));
		for (const group of body.querySelectorAll(".group")) group.hidden = !group.querySelector(".operation:not([hidden])");
		none.hidden = Boolean(body.querySelector(".operation:not([hidden])"));
	});
	root.append(heading("API", h("code", base.href), h("div.actions", search, h("a.button", { href: apiURL("openapi.json"), download: "openapi.json", target: "_blank" }, "openapi.json"))), body);
	none.hidden = true;
	let loaded;

	// open loads the document once, and opens the operation with an id.
	return async function open([id]) {
		try {
			if (!loaded) {
				fill(body, skeleton("rows"));
				fill(body, documentNodes(loaded = await call("GET", "openapi.json")), none);
			}
		} catch (error) {
			return fill(body, errorState(error, () => open([id])));
		}
		const operation = id && byId(`api-${id}`);
		if (!operation || operation.open) return;
		operation.open = true;
		operation.scrollIntoView();
		operation.querySelector("summary").focus();
	};
}

function documentNodes(doc) {
	// resolve follows references. Fields next to $ref override the target's.
	const resolve = (one = {}) => (one.$ref ? { ...resolve(one.$ref.slice(2).split("/").reduce((node, name) => node[name], doc)), ...one } : one);

	const operations = Object.entries(doc.paths).flatMap(([path, item]) => ["get", "post", "patch", "delete"].filter((method) => item[method]).map((method) => ({
		...item[method],
		path,
		method: method.toUpperCase(),
		parameters: [...item.parameters ?? [], ...item[method].parameters ?? []].map(resolve),
	})));
	return [
		h("details.about", h("summary", "About this API"), prose(doc.info.description)),
		doc.tags.map(({ name }) => h("section.group", h("h2", name), h("div", operations.filter(({ tags }) => tags[0] === name).map(operation)))),
	];

	// An operation is rendered when it is opened.
	function operation(one) {
		const { operationId: id, method, path, summary, description } = one;
		return h("details.operation", { id: id && `api-${id}`, "data-text": `${method} ${path} ${summary} ${description}`.toLowerCase(), ontoggle({ target }) {
			if (!target.open) return;
			if (target.children.length === 1) target.append(h("div.stack", detail(one)));
			if (id && target.isConnected) history.replaceState(null, "", `#/api/${id}`);
		} }, h("summary", h(`span.method.${method}`, method), h("code", path), h("span.hint", summary)));
	}

	function detail({ method, path, description, security = [], parameters, requestBody, responses }) {
		const { content = {} } = resolve(requestBody);
		const { "application/json": body } = content;
		const list = Object.entries(responses).map(([status, response]) => [status, resolve(response)]);
		const contents = list.filter(([status]) => status < 300).map(([, response]) => response.content ?? {});
		const keys = security.flatMap(Object.keys);
		return [
			prose(description),
			keys.length > 0 && h("p.hint", "Requires ", keys.map((name, i) => [i > 0 && " or ", h("code", doc.components.securitySchemes[name].name)]), "."),
			h("h3", "Parameters"),
			table("Parameters", ["Name", "In", "Description"], parameters.map((p) => [h("code", p.name), p.in, inline(p.description)])),
			body && [h("h3", "Body"), mediaType("body", body)],
			h("h3", "Responses"),
			table("Responses", ["Status", "Description"], list.map(([status, response]) => [h(`span.badge.${status < 400 ? "good" : status < 500 ? "warn" : "bad"}`, status), inline(response.description)])),
			contents.map(({ "application/json": json }) => json && mediaType("response", json)),
			codeBlock("With curl", curl({
				method,
				url: apiURL(path.slice(1).replace(/\{(\w+)\}/g, (_, name) => parameters.find((p) => p.name === name).example)),
				flags: contents.some((types) => Object.keys(types).some((type) => !type.includes("json"))) ? "-OJ " : "",
				key: { adminKey: "admin", clientKey: "client" }[keys[0]],
				body: body && Object.values(body.examples)[0].value,
				file: !body && Object.keys(content)[0],
			})).node,
		];
	}

	// mediaType shows the fields and the examples of a body.
	function mediaType(what, { schema, examples }) {
		const rows = fields(schema, "");
		return [
			rows.length > 0 && table(`Fields of the ${what}`, ["Field", "Type", "Description"], rows),
			Object.values(examples ?? {}).map(({ summary, value }) => h("details", h("summary", `Example: ${summary}`), h("pre", { tabindex: "0" }, JSON.stringify(value, null, 2)))),
		];
	}

	// fields lists the fields of an object, including nested ones.
	function fields(schema, prefix) {
		const { properties = {}, required = [], items } = resolve(schema);
		if (items) return fields(items, `${prefix}[].`);
		return Object.entries(properties).flatMap(([name, inner]) => {
			const field = resolve(inner);
			const { maxLength, maxItems, description } = field;
			const limit = maxLength ? ` At most ${maxLength} characters.` : maxItems && ` At most ${maxItems} elements.`;
			return [
				[h("code", prefix + name), [kind(field), required.includes(name) && h("span.hint", " required")], [inline(description), limit && h("span.hint", limit)]],
				...fields(inner, `${prefix}${name}${field.items ? "" : "."}`),
			];
		});
	}

	function kind({ type = "any", items, enum: values }) {
		return items ? `array of ${kind(resolve(items))}` : values?.join(", ") ?? [type].flat().join(" or ");
	}
}

// prose renders the paragraphs and headings of a description.
const prose = (text) => h("div.prose", text.split("\n\n").map((part) => (part.startsWith("## ") ? h("h3", part.slice(3)) : h("p", inline(part)))));

const inline = (text = "") => text.split("`").map((part, i) => (i % 2 ? h("code", part) : part));
