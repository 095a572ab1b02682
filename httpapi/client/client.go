// Package client contains a JavaScript client of the API of package httpapi, for
// browsers and Node.js. The API serves it at /client.js and /client.d.ts; an
// application that bundles its scripts may write [Files] to a directory.
//
//	import { createClient } from "https://viewer.example/api/client.js";
//
// It has a method for each operation that takes x-api-key, and more for what pages do:
// pages of lists, download links, URLs of images, and changes as they happen. The
// comments of client.d.ts describe it.
package client

import "embed"

// Files holds client.js, an ES module without dependencies, and client.d.ts, its types
// for TypeScript.
//
//go:embed client.js client.d.ts
var Files embed.FS
