// Package httpapi serves client keys, exports and the symbol library over
// HTTP.
//
// [Handler] returns the whole API as one http.Handler; [RequireClientKey] puts
// its key check in front of a host's own routes.
//
// # Mounting
//
// The handler serves the paths below relative to where it is mounted: at the
// root, under [Options.Prefix], or behind http.StripPrefix. It never redirects,
// and writes no path of its own.
//
//	mux.Handle("/api/", httpapi.Handler(httpapi.Options{Prefix: "/api", ...}))
//	mux.Handle("/api/", http.StripPrefix("/api", httpapi.Handler(options)))
//
// Routers that leave the path as it is, chi among them, take the first form.
//
// The host's http.Server has [ConnContext] as its ConnContext, by which the
// handler tells a slow client from one that stands still:
//
//	server := &http.Server{Handler: mux, ConnContext: httpapi.ConnContext, ...}
//
// GET /openapi.json describes the API in OpenAPI 3.1: clients can be generated
// from it, and tests hold it to what the handler does. It asks for no key.
// [OpenAPI] has the same bytes.
//
// # Keys
//
// Admin routes ask for an x-admin-key: 401 if it is missing or wrong, 403 if
// the server has none. Client routes ask for an x-api-key: 401 if it is
// missing, malformed or unknown, 403 if its key is inactive or has expired. A
// header that is sent twice counts as missing. An address that goes on sending
// wrong keys gets 429 beyond a bound ([Guessing]). A 401 names the header in
// WWW-Authenticate, with the scheme ApiKey.
//
// A request is checked in this order: route (404), method (405), key, id and
// body (400, 413, 415), existence (404), condition (412), conflict (409).
//
// # Requests
//
// A body is one JSON object, or empty for {}; that of an import is a zip. JSON
// is read strictly: duplicate fields, invalid UTF-8, wrong types, and null where
// it has no meaning are 400; fields nobody knows are ignored; names match
// exactly. Content-Type is absent, application/json or anything that ends in
// +json. Texts may not contain NUL.
// An id is a positive number without sign or leading zeros. A time is RFC 3339
// with any offset, or a date, which is its midnight in UTC.
//
// # Answers
//
// Times are RFC 3339 in UTC with milliseconds. Every answer has an
// X-Request-Id: the caller's own if it is 1 to 128 visible ASCII characters,
// else a new one. Nothing may be stored by caches, but for what has an entity
// tag.
//
// Every error of every route has the body
//
//	{"message": "for people", "code": "for programs", "requestId": "for the log"}
//
// with one of these codes:
//
//	invalid_request         400   the message starts with the field's name
//	unauthorized            401
//	forbidden               403
//	not_found               404
//	method_not_allowed      405   with Allow
//	conflict                409
//	precondition_failed     412
//	too_large               413
//	unsupported_media_type  415
//	too_many_requests       429   with Retry-After
//	internal                500
//	export_failed           502
//	unavailable             503   with Retry-After
//	export_timeout          504
//
// The cause of an error goes to [Options.Logger] and never to the client.
//
// # Client keys
//
//	GET    /admin/api-keys             200 [key, ...], ids ascending
//	POST   /admin/api-keys             201 {message, apiKey, key}
//	GET    /admin/api-keys/:id         200 key
//	PATCH  /admin/api-keys/:id         200 key
//	POST   /admin/api-keys/:id/rotate  200 {message, apiKey, key}
//	DELETE /admin/api-keys/:id         200 {message}
//
// A key is {id, name, keyPrefix, maskedKey, isActive, expiresAt, lastUsedAt,
// createdAt, updatedAt}. Creation and update take name (1 to 255 characters),
// isActive and expiresAt (null for none), all optional. The raw key is in
// apiKey and nowhere else, ever. A rotation needs no body.
//
// When the answer to a rotation, a deletion, a deactivation or an expiry
// arrives, no process accepts any more what it forbids. On storage that
// processes share, such an answer takes half a second for that reason.
//
// # Symbols
//
//	GET    /symbol/folders              200 [folder, ...], ids ascending
//	POST   /symbol/folders              201 folder; 409 if the name is taken
//	GET    /symbol/folders/:id          200 folder
//	PATCH  /symbol/folders/:id          200 folder; 409 if the name is taken
//	DELETE /symbol/folders/:id          200 {message}; its symbols go with it
//	GET    /symbol/folders/:id/symbols  200 [symbol, ...], ids ascending
//	POST   /symbol/folders/:id/symbols  201 symbol
//	GET    /symbol/symbols/:id          200 symbol
//	PATCH  /symbol/symbols/:id          200 symbol
//	DELETE /symbol/symbols/:id          200 {message}
//
// A folder is {id, name}; a symbol is {id, name, type, data, folderId}. Names
// have 1 to 255 characters, type is a MIME type, data any text but the empty
// one. An update leaves alone what is left out; folderId moves a symbol.
//
// The four GETs carry a strong entity tag (RFC 9110, section 8.8.3), which
// changes with whatever they would show and with nothing else, and never comes
// back. A client that sends it as If-None-Match gets 304 and no body while it
// is right. Each request asks the storage for that, so a change by another
// process shows at once. A list too long to be held in memory (4 MB) may have a
// new tag each time, as it may be torn by a change while it is written; it
// serves as well.
//
// Answers with one folder or symbol have its tag too. As If-Match of a PATCH or
// DELETE it keeps two editors from overwriting each other: 412 and no change if
// there is a newer state. Without the header the last one wins.
//
// # Symbols in a zip
//
//	GET  /symbol/folders/:id/export  200 a zip
//	POST /symbol/folders/:id/import  201 {message, dryRun, imported, files, ignored}
//
// These are extensions. An export is a zip of files with a manifest, as the
// package symbols/bundle describes; importing it gives symbols with the same
// names, types and data, in the same order. It is written while the folder is
// read, and breaks off like a download of an export if that fails.
//
// An import takes such a zip, or a plain one of SVG and PNG files, as the body:
// application/zip, application/x-zip-compressed, application/octet-stream or no
// Content-Type. It adds symbols, all or none, whatever lies in the folder.
// files lists {file, symbolId, name, type} in the order of the symbols, and
// ignored lists {file, reason} for directories and what operating systems leave
// in zips. With ?dryRun=true nothing is written, but all is checked, the folder
// included: the answer is then 200, with the number and list of what would be
// imported but without symbolId.
//
// If a file cannot be used, the answer is 400, and refused in its body lists
// {file, reason} for each such file, up to 100. It is 400 too if there is
// nothing to import, and 413 beyond [Options.ImportLimit], 64 MiB, or
// [Options.Import]: 10,000 files, 256 MiB of data, 50 MiB of it in a symbol,
// and 200 times the size of the zip.
//
// # Exports
//
//	POST /viewer/exports/download        200 the file
//	POST /viewer/exports/download-batch  200 a zip
//	POST /viewer/exports/register        201 {success, record}, 200 if it replaced one
//
// A single download takes {sourceFileUrl}, a batch {items: [{sourceFileUrl},
// ...]} with 1 to 1000 items. With ?responseType=urls they answer {success,
// exportedUrl} and {success, exportedUrls, skipped} instead. The address of a
// source is trimmed and then compared exactly with what was registered.
//
// A file that is not registered is 404, one that cannot be fetched 502, one
// that takes too long 504. In a batch it is skipped: the zip then has an entry
// manifest.json, and skipped lists {sourceFileUrl, reason}. When nothing can be
// delivered the batch is answered with an error, skipped in its body.
//
// A file has a Content-Length if its origin tells its size. A zip has one if
// the size of each of its files is known in time: it has been opened, or was
// read in a batch not long ago. The zip is of just that length even if a file
// has to be skipped. A file that has grown since, or too much that is skipped,
// breaks it, and the next try has no length to keep. The package exports has
// the rules.
//
// A download that fails after it has begun ends in a broken connection, never
// like a whole one; of a client that speaks HTTP/1.0 and stands still that is
// true with [ConnContext] only.
//
// Registration takes {sourceFileUrl, exportedUrl, fileName}, the last of them
// optional. [Options.RegisterWith] says who may.
package httpapi
