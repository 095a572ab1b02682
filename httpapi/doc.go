// Package httpapi serves client keys, exports and the symbol library over HTTP.
//
// [Handler] returns the complete API as one http.Handler. [New] returns it as an
// [API], which also authenticates the application's own routes. The routes, their
// requests and their responses are described by the OpenAPI document that the
// handler serves at /openapi.json without a key, and that [OpenAPI] returns.
//
// # Mounting
//
// All paths are relative to where the handler is mounted: at the root, below
// [Options.Prefix], or behind http.StripPrefix. It never redirects and writes no
// path of its own.
//
//	mux.Handle("/api/", httpapi.Handler(&httpapi.Options{Prefix: "/api", ...}))
//	mux.Handle("/api/", http.StripPrefix("/api", httpapi.Handler(opts)))
//
// Routers that leave the path as it is need the first form: gin, echo and chi. The
// access logs of gin.Default show URLs: see Download links.
//
//	router.Any("/api/*path", gin.WrapH(api))
//	router.Any("/api/*", echo.WrapHandler(api))
//	router.Mount("/api", api)
//
// [ConfigureServer] sets the timeouts of the http.Server and [ConnContext].
//
// Other servers, middleware and proxies can affect downloads:
//
//   - http.TimeoutHandler, and echo's timeout middleware, which uses it, hold a
//     response in memory until it is complete. Mount the API outside of them. A
//     warning is logged once.
//   - Middleware that compresses, such as echo's, chi's and gin-contrib/gzip, also
//     compresses downloads and their ranges, and removes the Content-Length. Mount the API
//     outside of it: the API compresses lists by itself.
//   - Behind other servers than net/http, such as fasthttp with Fiber's adaptor, a
//     truncated download may look complete.
//   - Caddy 2.6, and HAProxy 2.6 and Varnish 7.1 over HTTP/2, complete a truncated
//     response that has no Content-Length, which HAProxy removes if it compresses. Files
//     of known size, and download links that can be resumed, are safe otherwise.
//
// # Authentication
//
// Admin routes require x-admin-key and client routes x-api-key. A missing,
// malformed or unknown key, or one sent twice, gets 401 with WWW-Authenticate. An
// inactive or expired client key gets 403, and so does every admin request if no
// admin key is configured. [RateLimit] limits wrong keys. An application with a
// login of its own sets [Options.AuthenticateAdmin] in place of admin keys.
//
// Each client route but /viewer/key and /viewer/tokens requires a scope, such as
// [ScopeSymbolsRead]; a key without it gets 403. [Options.Authorize] may deny further requests.
//
// [API.RequireClientKey], [API.RequireScope] and [API.Authenticate] protect the
// application's own routes with client keys; [KeyFromContext] returns the key.
//
// Wherever a client key is accepted, a page token of it is too, with what both permit:
// see package keys. GET of the image of a symbol, and of the changes, takes one as the
// parameter token, for img and EventSource; such a response has Referrer-Policy: no-referrer.
//
// The requests that the application gets from the API, RequireClientKey and
// Authenticate have neither header, so that nothing logs a key. The API also removes the
// parameter. RequireClientKey and Authenticate neither remove nor accept it. An API behind
// either of them takes the keys from the request context, and counts one use. Download
// links, and whatever else has no client key in a header, get 401 there. The request of the
// caller is not modified.
//
// # Order of checks
//
// Route (404), method (405), key (401, 403, 429, 503), id and body (400, 413, 415),
// existence (404), condition (412), conflict (409). Without a valid key a response
// shows nothing about what exists.
//
// # Errors
//
// Every error has a JSON body, unknown routes and panics included:
//
//	{"message": "for people", "code": "for programs", "requestId": "for the log"}
//
// The message of a 400 begins with the name of the field. The cause of an error is
// logged by [Options.Logger] with the request id and never sent to the client.
//
// # Lists
//
// The query parameters limit (1 to 1000) and after (an id) select a page of a list.
// While more records exist, the response has a Link to the next page. A page of long
// symbols ends before its limit. The parameter fields selects the fields of symbols, also of
// a single one. A search finds the words of a text, in any order, in the names and tags of
// all folders' symbols, and shows every change at once.
//
// # Conditional requests
//
// Folders, symbols and their lists have a strong ETag (RFC 9110, section 8.8.3) that
// changes when their response does and never repeats. That of a page, or of selected
// fields, may also change with other changes of the list. Each request compares it with
// the version in the store, so changes made by other processes show at once. A matching
// If-None-Match gets 304, which costs a read of the version. Of a long list, the first
// 16 MiB are read in advance (see [Limits.ListCache]); a response whose rest is read while
// it is sent has an ETag of its own. If-Match makes an update or deletion conditional: 412
// if the record has changed. It also accepts weak forms of these tags: nginx weakens the
// tag of a response that it compresses.
//
// Lists, folders, symbols and usage of 1 KiB or more are compressed if the client accepts
// gzip. Each representation has an ETag of its own. If-None-Match accepts that of the
// compressed and of the plain one.
//
// # Download links
//
// A link is a secret in a URL. It needs no header, so that a browser downloads it
// without help of a page. It belongs to the raw key that made it: the key is
// checked on each request and before each write, and a blocked write is interrupted
// within 200 ms. This package logs no token; the application should not log the
// URLs of requests below /viewer/exports/links/ either, but [http.Request.Pattern].
//
// # Logs, metrics and traces
//
// [Options.Observe] is called for each request, denied ones included. [LogRequests]
// makes it an access and audit log. The directory examples/internal/metrics exports
// metrics to Prometheus with it.
//
// With OpenTelemetry, otelhttp.NewHandler around the API records spans and metrics
// by route. The options add the rest: who made the request, the trace id as request
// id, and the trace context of requests to origin servers.
//
//	options.Observe = func(ctx context.Context, o httpapi.Observation) {
//		span := trace.SpanFromContext(ctx)
//		span.SetAttributes(
//			attribute.String("canvasback.actor", o.Actor),
//			attribute.String("canvasback.code", o.Code),
//			attribute.Bool("canvasback.aborted", o.Aborted),
//		)
//		if strings.Contains(o.Route, "{token}") { // the path has a secret
//			span.SetAttributes(attribute.String("url.path", o.Route))
//		}
//	}
//	options.RequestID = func(r *http.Request) string {
//		if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
//			return span.TraceID().String()
//		}
//		return ""
//	}
//	fetchOptions.Traceparent = func(ctx context.Context) string {
//		carrier := propagation.MapCarrier{}
//		propagation.TraceContext{}.Inject(ctx, carrier)
//		return carrier["traceparent"]
//	}
//
// # JavaScript
//
// The handler serves a client as /client.js, an ES module, and its types as
// /client.d.ts. Package client has both as files.
//
//	import { createClient } from "https://viewer.example/api/client.js";
//
// # Generated clients
//
// Generators read [OpenAPI]. Bodies of downloads and images are binary: hey-api and openapi-fetch return
// them with parseAs: "blob", oapi-codegen as Body, which needs nullable-type: true to send a null, such as
// for no expiresAt. orval decodes JSON only: fetch what getGetSymbolImageUrl returns.
//
// # Streaming
//
// Downloads last as long as data flows: [Limits.IdleTimeout] replaces the
// WriteTimeout of the server. A download that fails after it has begun is aborted:
// the connection is reset, or the stream over HTTP/2, so that it does not look
// complete to the client. That also works behind middleware that recovers panics,
// such as gin's, if the middleware's ResponseWriter has an Unwrap method.
//
// A truncated download can look complete in two cases without [ConnContext]: to an
// HTTP/1.0 client that times out, and to an HTTP/1 client behind middleware whose
// ResponseWriter has no Unwrap, and no Hijack that works once the body has begun: that of
// gin-contrib/gzip has neither. Over HTTP/2, middleware without Unwrap must not recover
// http.ErrAbortHandler, as gin.Recovery does.
//
// Behind middleware whose ResponseWriter has no Unwrap, over HTTP/2 or without
// [ConnContext], the WriteTimeout of the server ends downloads and streams of changes
// although data flows. Without a WriteTimeout, one whose client reads nothing lasts until
// that disconnects, even if its key is revoked. Over any HTTP, [Limits.BodyRate] has no
// effect behind such middleware.
package httpapi
