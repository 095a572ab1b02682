// Package console serves a web page by which people use the API of package
// httpapi: client keys, the symbol library, export downloads, and the API's
// own document.
//
// [New] returns it as an http.Handler:
//
//	page, err := console.New(console.Options{API: "../api/"})
//	...
//	mux.Handle("/api/", httpapi.Handler(httpapi.Options{Prefix: "/api", ...}))
//	mux.Handle("/console/", http.StripPrefix("/console", page))
//
// # Mounting
//
// The page is a handful of files that know each other by relative addresses,
// and finds the API by an address relative to its own, so both may be mounted
// under any prefix. Each screen is a fragment (#/keys), which no server sees.
// Where the slash behind the prefix is missing, the answer is a redirect to the
// same place with the slash; it is the only one.
//
// # What it may do
//
// The page has no rights of its own: it uses the public API with the keys that
// its reader types in. They stay in the page's memory, or in the session
// storage of the tab if the reader says so, and travel in headers only.
//
// The files are public. Nothing in them is secret, and nothing outside is
// fetched but the API: a content security policy lets scripts and styles come
// from the files alone and connections go to the API alone, and refuses
// framing, forms and every way of making a script of a text. Drawings
// are shown as images, in which a script does not run.
//
// The page is made of ES modules that a browser reads as they are; there is no
// build step. It needs a browser of 2024 or later.
package console
