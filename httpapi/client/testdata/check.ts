// The types of client.d.ts must be those that openapi-typescript generates. The test
// appends the operations.
import type { Client, ClientOptions, ErrorCode, ListName, Operations, RequestOptions } from "./client.js";
import type { components, operations } from "./schema.js";

type Plain<T> = T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
type Same<A, B> = (<T>() => T extends Plain<A> ? 1 : 2) extends <T>() => T extends Plain<B> ? 1 : 2 ? true : false;
type AllKeys<T> = T extends unknown ? keyof T : never;
type RequiredKeys<T> = T extends unknown ? { [K in keyof T]-?: {} extends Pick<T, K> ? never : K }[keyof T] : never;
type Keys<T> = [AllKeys<T>, RequiredKeys<T>];

type Name = keyof Operations & keyof operations;
type Arguments<N extends Name> = Required<Parameters<Client[N]>>;
type Options<T> = Omit<T, keyof RequestOptions>;
type Path<N extends Name> = operations[N]["parameters"]["path"];
type Query<N extends Name> = operations[N]["parameters"] extends { query?: never } ? {} : NonNullable<operations[N]["parameters"]["query"]>;
type Body<N extends Name> = operations[N] extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;
type Responses<N extends Name> = operations[N]["responses"];
type Success<N extends Name> = Responses<N>[keyof Responses<N> & (200 | 201)];
type JSONOf<R> = R extends { content: { "application/json": infer J } } ? J : never;
type Result<N extends Name> = JSONOf<Success<N>>;
type Lists = { [N in Name]: "after" extends keyof Query<N> ? N : never }[Name];

declare function equal<A, B>(...problem: Same<A, B> extends true ? [] : [A, "is not", B]): void;
declare function accept<Given, Wanted>(
	...problem: [Given] extends [Wanted] ? (Same<Keys<Given>, Keys<Wanted>> extends true ? [] : [Keys<Given>, "are not", Keys<Wanted>]) : [Given, "is not", Wanted]
): void;

// Programs compile without assertions.
export async function use(client: Client, signal: AbortSignal) {
	for await (const folders of client.pages("listFolders")) folders[0]?.name satisfies string | undefined;
	for await (const symbols of client.pages(client.listSymbols, 1, { fields: "id,name", signal })) symbols[0]?.id satisfies number | undefined;
	for await (const symbols of client.pages("searchSymbols", { q: "valve" })) symbols.length satisfies number;
	const source = { sourceFileUrl: "https://viewer.example/17" };
	(await client.downloadExport(source)).body satisfies ReadableStream | null;
	(await client.downloadExport(source, { responseType: "urls" })).exportedUrl satisfies string;
	(await client.download({ items: [source] }, { fileName: "all.zip" })).skipped satisfies { reason: string }[];
	await client.request("POST", "symbol/folders/1/import", { body: new Blob([]) });
	// @ts-expect-error: fetch requires more options for a stream.
	await client.request("POST", "symbol/folders/1/import", { body: new ReadableStream() });
	const headers = { "If-Match": (await client.request("GET", "symbol/symbols/17")).headers.get("ETag") ?? "" };
	await client.updateSymbol(17, { name: "Valve" }, { headers });
	return { getToken: () => client.createToken({ scopes: ["symbols:read"] }) } satisfies ClientOptions;
}

equal<ErrorCode, components["schemas"]["ErrorCode"]>();
equal<ListName, Lists>();
