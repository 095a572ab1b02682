// Package console serves a web page for the API of package httpapi: an overview, client
// keys, the symbol library, exports and the API reference.
//
// # Mounting
//
// The page uses relative URLs only, for its own files and for the API, so both
// may be mounted under any prefix:
//
//	page, err := console.New(&console.Options{API: "../api/"})
//	...
//	mux.Handle("/api/", httpapi.Handler(&httpapi.Options{Prefix: "/api", ...}))
//	mux.Handle("/console/", http.StripPrefix("/console", page))
//
// Each screen is a fragment (#/keys), which browsers do not send. A request
// without the slash after the prefix is redirected to the same path with it;
// there are no other redirects.
//
// # Security
//
// The page has no rights of its own: it calls the public API with the keys that
// the user enters. They stay in the page's memory or, if the user chooses so,
// in the session storage of the tab, and are sent in headers only.
//
// The files are public and contain no secrets. A content security policy allows
// scripts and styles from the page's own origin only, and connections to that of the API and
// of the readiness check only. It forbids framing, forms and turning text into markup or script.
// Drawings are images, in which scripts do not run. Downloads from another origin are hidden frames.
//
// The page consists of ES modules without a build step, which New joins in one
// script. Responses are compressed if the client accepts it. It needs a browser of
// 2024 or later.
package console
