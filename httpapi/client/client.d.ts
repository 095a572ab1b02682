/**
 * A client of the Canvasback API for browsers and Node.js 18 or later. The server has it at
 * `/client.js` below the URL of the API:
 *
 *     import { createClient } from "https://viewer.example/api/client.js";
 *
 *     const client = createClient({ getToken: () => fetch("/token") });
 *     for await (const folders of client.pages("listFolders")) console.log(folders);
 *
 * Node.js and TypeScript need it as a file, beside `client.d.ts`, and the URL of the API:
 *
 *     import { createClient } from "./client.js";
 *
 *     const client = createClient({ baseUrl: "https://viewer.example/api/", key: process.env.CLIENT_KEY });
 *
 * Each method is an operation of openapi.json. Its arguments are the path parameters, the body if
 * there is one, and the query parameters with further options. It rejects with a `CanvasbackError`,
 * with the reason of `options.signal`, or with what `getToken` throws: without a network, the
 * `TypeError` of its `fetch`.
 */

export interface ClientOptions {
	/** URL of the API, also relative to the page. The default is the directory of this module. */
	baseUrl?: string | URL;

	/** A raw client key, for programs whose users may know it. It is never part of a URL. */
	key?: string;

	/** A page token, which ends an hour after it was made, or at another time. */
	token?: string;

	/**
	 * Returns a page token, from the application's own server, or the response that has it as JSON: an
	 * error of it rejects the call. It is called once at a time: before the first request, from 30 seconds before `expiresAt` on, and after a 401 or 403, which is
	 * then repeated once.
	 */
	getToken?: () => GivenToken | Response | Promise<GivenToken | Response>;

	/** For how many seconds a GET is repeated at most. The default is 60; with 0 it is not repeated. */
	maxWait?: number;

	/** Sends the requests. The default is the global `fetch`. */
	fetch?: typeof globalThis.fetch;
}

/** A page token, also as the response to its request. Without `expiresAt` it is kept until it is rejected. */
export type GivenToken = string | { token: string; expiresAt?: string | number | Date | null };

export interface RequestOptions {
	signal?: AbortSignal;

	/** For example `If-Match`. */
	headers?: Record<string, string>;
}

/** An error response, or the lack of a response. */
export class CanvasbackError extends Error {
	/** 0 if there was no response. */
	status: number;

	/** For programs. Null unless the response is of the API. */
	code: ErrorCode | null;

	/** For people. That of a 400 begins with the name of a field. */
	message: string;

	/** Identifies the request in the log of the server. Null without a response. */
	requestId: string | null;

	/** Seconds after which the request may succeed. Null if the server says nothing. */
	retryAfter: number | null;

	/** The JSON of the response, such as `skipped` and `rejected`. `{}` if it is not JSON. */
	body: { skipped?: SkippedItem[]; rejected?: NamedReason[]; [field: string]: unknown };

	/** Its body has been read. Null without a response. */
	response: Response | null;
}

export type ErrorCode =
	| "invalid_request"
	| "unauthorized"
	| "forbidden"
	| "not_found"
	| "method_not_allowed"
	| "conflict"
	| "precondition_failed"
	| "too_large"
	| "unsupported_media_type"
	| "range_not_satisfiable"
	| "too_many_requests"
	| "internal"
	| "export_failed"
	| "unavailable"
	| "not_ready"
	| "export_timeout";

/** Returns the JSON of a response to `request`. It rejects like a method. */
export function readJSON(response: Response, signal?: AbortSignal): Promise<any>;

/**
 * Lets the browser download from the absolute URL of a download link, as `download` does. The
 * name of a file from another origin is that of the response.
 */
export function openDownload(url: string, fileName: string): void;

export function createClient(options?: ClientOptions): Client;

/**
 * The methods need no `this`. A GET is conditional: an unchanged response comes from a cache of at
 * most 16 MB, as objects of the caller's own. A GET whose error has a `Retry-After` is repeated after
 * that time, in at most 10 requests. Nothing else is, except as `getToken` says.
 */
export interface Client extends Operations {
	/**
	 * Yields the pages of a list. `limit` is the size of a page, by default 1000; a page of long
	 * symbols is shorter.
	 */
	pages<N extends ListName>(list: N | Operations[N], ...args: Parameters<Operations[N]>): AsyncGenerator<Awaited<ReturnType<Operations[N]>>, void>;

	/**
	 * Makes a download link with an absolute `url`. Where there is a document, the browser begins to
	 * download it. `fileName` replaces the name of a single file. If the API has another origin, a
	 * Content-Security-Policy of the page needs it in `frame-src`.
	 */
	download(body: CreateLinkRequest, options?: RequestOptions & { fileName?: string }): Promise<Link>;

	/**
	 * Returns a URL for `<img>`, with a page token. With `key`, or a `getToken` that returns `expiresAt`,
	 * it is valid for at least 30 seconds if the token was made for more. Further parameters, such as
	 * `{ v: updatedAt }`, make a browser load a changed image.
	 */
	imageUrl(id: number, options?: { signal?: AbortSignal; [parameter: string]: unknown }): Promise<string>;

	/**
	 * Calls `listener` after each change, and once at the beginning. It resolves when it is connected,
	 * or the tab is hidden: a hidden tab has no connection, and gets what it has missed when it is
	 * shown. Lost connections are replaced. `onerror` is called if that is denied.
	 */
	changes(listener: (change: Change) => void, options?: { signal?: AbortSignal; onerror?: (error: unknown) => void }): Promise<{ close(): void }>;

	/**
	 * Sends a request for a path below the API, such as `symbol/folders`, or with a slash before it, an
	 * application's own route of the same origin. `json` is sent as JSON, `body` as it is.
	 */
	request(method: string, path: string | URL, options?: RequestOptions & { json?: unknown; body?: Exclude<RequestInit["body"], ReadableStream> }): Promise<Response>;
}

/** What may have changed. More may be named than has changed, never less. */
export interface Change {
	/** The list of folders. */
	folders: boolean;

	/** The folders whose symbols may have changed. Null for all. */
	folderIds: number[] | null;
}

/** Operations with pages. */
export type ListName = "listFolders" | "listSymbols" | "searchSymbols" | "listTrash";

/** The operations that take `x-api-key`. */
export interface Operations {
	/** Makes a page token. It needs a raw key: a page token gets 403. */
	createToken(body?: CreateTokenRequest, options?: RequestOptions): Promise<Token>;

	/** Returns what the key or page token of the client permits. */
	getOwnKey(options?: RequestOptions): Promise<OwnKey>;

	/** Registers the exported file of a source. 403 without the scope `exports:register`. */
	registerExport(body: RegisterExportRequest, options?: RequestOptions): Promise<RegisteredExport>;

	/**
	 * Downloads the file of a source, or with `responseType` its URL. 404 if it is not registered, 502
	 * if it cannot be fetched, 504 if that takes too long.
	 */
	downloadExport<T extends "urls" | undefined = undefined>(
		body: SingleExportDownloadRequest,
		options?: RequestOptions & { responseType?: T },
	): Promise<T extends "urls" ? SingleExportUrlResponse : Response>;

	/** Downloads a zip, or with `responseType` the URLs of its files. The body of a 404, 502 or 504 has `skipped`. */
	downloadExportBatch<T extends "urls" | undefined = undefined>(
		body: BatchExportDownloadRequest,
		options?: RequestOptions & { responseType?: T },
	): Promise<T extends "urls" ? BatchExportUrlsResponse : Response>;

	/** Makes a download link. Its `url` is relative; that of `download` is absolute. */
	createDownloadLink(body: CreateLinkRequest, options?: RequestOptions): Promise<Link>;

	listFolders(options?: RequestOptions & Page): Promise<SymbolFolder[]>;

	/** 409 if the name is taken. */
	createFolder(body: CreateFolderRequest, options?: RequestOptions): Promise<SymbolFolder>;

	getFolder(id: number, options?: RequestOptions): Promise<SymbolFolder>;

	/** 409 if the name is taken, 412 if `If-Match` does not match. */
	updateFolder(id: number, body: UpdateFolderRequest, options?: RequestOptions): Promise<SymbolFolder>;

	/** Deletes a folder with its symbols. */
	deleteFolder(id: number, options?: RequestOptions): Promise<Message>;

	/** `fields` are comma-separated, such as `id,name`; the default has `data`. */
	listSymbols(folderId: number, options?: RequestOptions & Page & { fields?: string }): Promise<ListedSymbol[]>;

	createSymbol(folderId: number, body: CreateSymbolRequest, options?: RequestOptions): Promise<SymbolRecord>;

	/** Downloads the symbols of a folder as a zip or a draw.io library. */
	exportFolder(id: number, options?: RequestOptions & { format?: "zip" | "drawio" }): Promise<Response>;

	/**
	 * Imports a zip, a library or a picture, whose symbol gets the `name`. The default is that of a
	 * `File`, without its extension. The body of a 400 may have `rejected`.
	 */
	importSymbols(id: number, body: Exclude<NonNullable<RequestInit["body"]>, ReadableStream>, options?: RequestOptions & { dryRun?: boolean; skip?: boolean; name?: string }): Promise<ImportResponse>;

	/** With `fields`, such as `tags,meta`, the record has these. */
	getSymbol<T extends string | undefined = undefined>(
		id: number,
		options?: RequestOptions & { fields?: T },
	): Promise<T extends string ? ListedSymbol : SymbolRecord>;

	/**
	 * `folderId` moves the symbol. 412 if `If-Match` does not match, which prevents lost updates:
	 *
	 *     const response = await client.request("GET", "symbol/symbols/17");
	 *     const { name } = await response.json();
	 *     const headers = { "If-Match": response.headers.get("ETag") ?? "" };
	 *     await client.updateSymbol(17, { name: name + " (old)" }, { headers });
	 */
	updateSymbol(id: number, body: UpdateSymbolRequest, options?: RequestOptions): Promise<SymbolRecord>;

	deleteSymbol(id: number, options?: RequestOptions): Promise<Message>;

	/** Moves and tags symbols, all or none. The message of a 404 names the missing id. */
	updateSymbols(body: UpdateSymbolsRequest, options?: RequestOptions): Promise<UpdatedSymbols>;

	/** Deletes symbols, all or none. */
	deleteSymbols(body: DeleteSymbolsRequest, options?: RequestOptions): Promise<DeletedSymbols>;

	listTrash(options?: RequestOptions & Page): Promise<TrashEntry[]>;

	/** Deletes a folder or symbol for good. */
	deleteTrash(id: number, options?: RequestOptions): Promise<Message>;

	/** Restores a folder with its symbols, or a symbol. 409 if that is not possible. */
	restoreTrash(id: number, body?: RestoreRequest, options?: RequestOptions): Promise<SymbolRecord | SymbolFolder>;

	/** 404 if the data of the symbol is no image. Show images in `<img>` only: an SVG may have scripts. */
	getSymbolImage(id: number, options?: RequestOptions): Promise<Response>;

	/** Finds symbols of all folders whose name and tags contain each word of `q`, without `data` unless `fields` has it. */
	searchSymbols(options: RequestOptions & Page & { q: string; fields?: string }): Promise<ListedSymbol[]>;

	/** The events that `changes` follows, as a stream that ends when `signal` aborts. */
	streamChanges(options?: RequestOptions & { lastEventId?: string }): Promise<Response>;
}

export interface Page {
	/** 1 to 1000. Without it a list is complete. */
	limit?: number;

	/** An id; the page begins behind it. */
	after?: number;
}

/** The restrictions of a page token. */
export interface CreateTokenRequest {
	/** 1 to 86400. The default is 3600. */
	expiresInSeconds?: number;

	/** Null for whatever the key permits. */
	scopes?: string[] | null;

	/** The sources whose exports the token is for. Null for all. */
	sources?: string[] | null;
}

export interface Token {
	token: string;
	expiresAt: string;
	scopes: string[] | null;
	sources: string[] | null;
}

export interface OwnKey {
	id: number;
	name: string;
	owner: string | null;
	scopes: string[] | null;
	sources: string[] | null;
	expiresAt: string | null;
	isToken: boolean;
}

export interface RegisterExportRequest {
	sourceFileUrl: string;
	exportedUrl: string;

	/** Null for the name of the exported file. Absent: as before. */
	fileName?: string | null;

	/** Of a server with tenants, with an admin key. Otherwise ignored. */
	tenant?: unknown;
}

export interface RegisteredExport {
	success: true;
	record: ExportRecord;
}

/** Times are in UTC as in RFC 3339, with milliseconds. */
export interface ExportRecord {
	id: number;
	sourceFileUrl: string;
	exportedUrl: string;
	fileName: string | null;
	createdAt: string;
	updatedAt: string;
}

export interface SingleExportDownloadRequest {
	sourceFileUrl: string;

	/** Instead of the registered name. */
	fileName?: string | null;
}

export interface SingleExportUrlResponse {
	success: true;
	exportedUrl: string;
}

export interface BatchExportItem {
	sourceFileUrl: string;

	/** Folders in the zip, such as `plans/2026`. */
	path?: string | null;

	/** Instead of the registered name. */
	fileName?: string | null;
}

export interface BatchExportDownloadRequest {
	/** At most 1000 by default. */
	items: BatchExportItem[];
}

export interface BatchExportUrlsResponse {
	success: true;
	exportedUrls: string[];
	skipped: SkippedItem[];
}

export interface SkippedItem {
	sourceFileUrl: string;
	reason: string;
}

/** The source of a file, or those of a zip. */
export type CreateLinkRequest = SingleExportDownloadRequest | BatchExportDownloadRequest;

export interface Link {
	success: true;
	url: string;
	fileName: string;

	/** In bytes. Null if unknown. */
	size: number | null;

	/** Whether a download can be paused. */
	resumable: boolean;

	/** Null unless the link is resumable. */
	etag: string | null;

	expiresAt: string;
	skipped: SkippedItem[];

	/** Without these items the link is resumable. */
	notResumable: SkippedItem[];
}

export interface SymbolFolder {
	id: number;
	name: string;
}

export interface CreateFolderRequest {
	name: string;
}

export interface UpdateFolderRequest {
	name?: string;
}

export interface SymbolRecord {
	id: number;
	name: string;

	/** A media type. */
	type: string;

	/** Any text, such as an SVG document or the JSON of a viewer. */
	data: string;

	folderId: number;
}

/** A symbol with the requested fields. */
export interface ListedSymbol extends Partial<SymbolRecord> {
	/** Of `data`, in bytes. */
	size?: number;

	tags?: string[];
	meta?: { [field: string]: unknown } | null;
	createdAt?: string;
	updatedAt?: string;

	/** Id of a key. */
	updatedBy?: number | null;
}

export interface CreateSymbolRequest {
	name: string;
	type: string;
	data: string;

	/** At most 32. */
	tags?: string[] | null;

	/** The application's own. */
	meta?: { [field: string]: unknown } | null;
}

export interface UpdateSymbolRequest {
	name?: string;
	type?: string;
	data?: string;
	folderId?: number;
	tags?: string[] | null;
	meta?: { [field: string]: unknown } | null;
}

export interface UpdateSymbolsRequest {
	/** At most 1000. */
	ids: number[];
	folderId?: number;
	addTags?: string[];
	removeTags?: string[];
}

export interface UpdatedSymbols {
	updated: number;
}

export interface DeleteSymbolsRequest {
	/** At most 1000. */
	ids: number[];
}

export interface DeletedSymbols {
	deleted: number;
}

export interface TrashEntry {
	id: number;
	kind: "folder" | "symbol";
	name: string;
	folderId: number;

	/** Of a folder. */
	symbols: number | null;

	deletedAt: string;

	/** Id of a key. */
	deletedBy: number | null;
}

export interface RestoreRequest {
	/** Another folder for a symbol. */
	folderId?: number;
}

export interface ImportResponse {
	message: string;
	dryRun: boolean;

	/** The number of symbols that were, or would be, created. */
	imported: number;

	files: ImportedFile[];
	ignored: NamedReason[];

	/** What cannot be imported, with `skip`. */
	skipped?: NamedReason[];
}

export interface ImportedFile {
	file: string;

	/** Absent in a dry run. */
	symbolId?: number;

	name: string;
	type: string;
}

export interface NamedReason {
	file: string;
	reason: string;
}

/** A message for people. */
export interface Message {
	message: string;
}
