// Calls every operation through the client that hey-api has generated, and downloads
// through openapi-fetch with the types of openapi-typescript.
import createClient from "openapi-fetch";
import { client } from "./generated/hey/client.gen.js";
import * as api from "./generated/hey/sdk.gen.js";
import type { paths } from "./generated/schema.js";

const baseUrl = "http://127.0.0.1:18080/api";
client.setConfig({ baseUrl, throwOnError: true });

const called = new Set<string>();

// call notes that an operation was called and returns its result.
async function call<T>(name: keyof typeof api, result: Promise<{ data: T; response: Response }>): Promise<NonNullable<T>> {
	const { data, response } = await result;
	if (!response.ok || data === undefined || data === null) throw new Error(`${name}: ${response.status}`);
	called.add(name);
	return data;
}

const admin = { headers: { "x-admin-key": "admin-key-of-clients" }, throwOnError: true } as const;
const issued = await call("createKey", api.createKey({ ...admin, body: { name: "Viewer" } }));
const id = issued.key.id;
await call("listKeys", api.listKeys(admin));
await call("getKey", api.getKey({ ...admin, path: { id } }));
await call("updateKey", api.updateKey({ ...admin, path: { id }, body: { name: "Other" } }));
const rotated = await call("rotateKey", api.rotateKey({ ...admin, path: { id } }));

const other = await call("createKey", api.createKey({ ...admin, body: {} }));
await call("updateKeys", api.updateKeys({ ...admin, body: { ids: [other.key.id], isActive: false } }));
await call("importKeys", api.importKeys({ ...admin, body: { keys: [{ sha256: "a".repeat(64) }] } }));
await call("revokeRawKeys", api.revokeRawKeys({ body: { apiKeys: ["unknown"] }, throwOnError: true }));
await call("deleteKeys", api.deleteKeys({ ...admin, body: { ids: [other.key.id] } }));

const key = { headers: { "x-api-key": rotated.apiKey }, throwOnError: true } as const;
await call("createToken", api.createToken({ ...key, body: { scopes: ["symbols:read"] } }));
await call("getOwnKey", api.getOwnKey(key));
const folder = await call("createFolder", api.createFolder({ ...key, body: { name: "Generated" } }));
await call("listFolders", api.listFolders({ ...key, query: { limit: 10 } }));
await call("getFolder", api.getFolder({ ...key, path: { id: folder.id } }));
await call("updateFolder", api.updateFolder({ ...key, path: { id: folder.id }, body: { name: "Valves" } }));
const symbol = await call("createSymbol", api.createSymbol({
	...key,
	path: { folderId: folder.id },
	body: { name: "Valve", type: "image/svg+xml", data: `<svg xmlns="http://www.w3.org/2000/svg"/>` },
}));
await call("listSymbols", api.listSymbols({ ...key, path: { folderId: folder.id }, query: { fields: "id,name" } }));
await call("getSymbol", api.getSymbol({ ...key, path: { id: symbol.id } }));
await call("updateSymbol", api.updateSymbol({ ...key, path: { id: symbol.id }, body: { name: "Gate valve" } }));
await call("searchSymbols", api.searchSymbols({ ...key, query: { q: "gate" } }));
const image: Blob | File = await call("getSymbolImage", api.getSymbolImage({ ...key, path: { id: symbol.id }, parseAs: "blob" }));
if (!image.size) throw new Error("empty image");
const zip: Blob | File = await call("exportFolder", api.exportFolder({ ...key, path: { id: folder.id } }));
await call("importSymbols", api.importSymbols({
	...key,
	headers: { ...key.headers, "Content-Type": "application/zip" },
	path: { id: folder.id },
	body: zip,
}));
const symbols = { ids: [symbol.id] };
await call("updateSymbols", api.updateSymbols({ ...key, body: { ...symbols, addTags: ["valve"] } }));
await call("deleteSymbols", api.deleteSymbols({ ...key, body: symbols }));
const [deleted] = await call("listTrash", api.listTrash({ ...key, query: { limit: 1 } }));
await call("restoreTrash", api.restoreTrash({ ...key, path: { id: deleted?.id ?? 0 } }));
await call("deleteSymbol", api.deleteSymbol({ ...key, path: { id: symbol.id } }));
await call("deleteFolder", api.deleteFolder({ ...key, path: { id: folder.id } }));
const [rest] = await call("listTrash", api.listTrash(key));
await call("deleteTrash", api.deleteTrash({ ...key, path: { id: rest?.id ?? 0 } }));

const sourceFileUrl = "https://viewer.example/documents/generated";
const exportedUrl = "http://standalone.internal/samples/exports/pump-skid.svg";
await call("registerExport", api.registerExport({ ...admin, body: { sourceFileUrl, exportedUrl } }));
await call("downloadExport", api.downloadExport({ ...key, body: { sourceFileUrl }, parseAs: "blob" }));
const file = await createClient<paths>({ baseUrl }).POST("/viewer/exports/download", { headers: key.headers, body: { sourceFileUrl }, parseAs: "blob" });
if (!file.data?.size) throw new Error(`openapi-fetch: ${file.response.status}`);
await call("downloadExportBatch", api.downloadExportBatch({ ...key, body: { items: [{ sourceFileUrl }] }, parseAs: "blob" }));
const link = await call("createDownloadLink", api.createDownloadLink({ ...key, body: { sourceFileUrl } }));
const [token, fileName] = link.url.split("/").slice(-2);
await call("downloadLink", api.downloadLink({ path: { token: token ?? "", fileName: fileName ?? "" }, parseAs: "blob", throwOnError: true }));
const [registered] = await call("listExports", api.listExports({ ...admin, query: { q: sourceFileUrl, limit: 1 } }));
const exported = { ...admin, path: { id: registered?.id ?? 0 } } as const;
await call("getExport", api.getExport(exported));
await call("checkExport", api.checkExport(exported));
await call("deleteExport", api.deleteExport(exported));
await call("deleteKey", api.deleteKey({ ...admin, path: { id } }));
await call("getDocument", api.getDocument({ throwOnError: true }));
await call("getClientScript", api.getClientScript({ throwOnError: true }));
await call("getClientTypes", api.getClientTypes({ throwOnError: true }));

const missing = Object.keys(api).filter((name) => !called.has(name));
if (missing.length) throw new Error(`not called: ${missing}`);
console.log(`${called.size} operations in TypeScript`);
