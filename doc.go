// Package canvasback is the back end of a document, drawing or CAD viewer: client
// API keys, export downloads and a symbol library, as packages that any Go program
// imports. This package has no code; it is the map of the others.
//
// # Packages
//
//	keys        issues and verifies client keys
//	symbols     stores symbols in folders
//	  bundle      encodes and decodes a folder as a zip
//	  picture     finds the image in a symbol, and its size
//	exports     registers exported files and delivers them, singly or as a zip
//	  fetch       opens files over HTTP, behind an SSRF guard
//	  files       opens files on the local disk
//	  s3          opens objects of S3-compatible stores, presigns URLs
//	  filename    makes file names portable
//	  ziptest     tests archives with other programs
//	httpapi     serves all three as an http.Handler
//	  apitest     an in-memory server for an application's tests
//	  client      a client in JavaScript, which the API also serves
//	  conform     tests a deployment from outside
//	  console     a web page for the API
//	storage     documents what the drivers have in common
//	  memory, sqlite, postgres   the drivers
//	  storagetest                their conformance suite
//
// Each of the three domains has one concrete Service with all its rules, and a
// small Store interface whose comments are the contract for drivers. Imports
// point in one direction, which a test enforces:
//
//	  your program, examples
//	   |                  |
//	httpapi      storage drivers, exports/fetch, exports/files, exports/s3
//	   |                  |
//	   +--- keys, symbols, exports ---+
//
// The domains depend on neither HTTP nor a database, nor on the records of each other:
// keys and symbols share symbols/fresh, without a promise of compatibility. Package
// httpapi depends on no driver, and drivers do not depend on each other.
//
// # Life of a request
//
// The handler assigns a request id, responds to CORS preflights, and looks the
// route up in one table (httpapi/routes.go). It decodes the id in the path, and the
// route's key check authenticates the request. A generic helper decodes the JSON body,
// calls the endpoint with a timeout for the store, and encodes the response; downloads
// write their own. The endpoint calls a Service, which validates the fields and
// calls its Store. Errors wrap sentinels of the domains, and one table
// (httpapi/errors.go) maps each sentinel to a status and a code. The cause of an
// error is logged and never sent to the client.
//
// # Choices
//
//   - Drivers are thin: identity, uniqueness, references, versions. All other
//     rules are in a Service.
//   - Records are changed by a function inside the driver's transaction, so that
//     concurrent updates are not lost.
//   - Constructors do no I/O, start no goroutine and read no environment.
//     [example.com/canvasback/keys.Service.Run] does the background work.
//   - The zero value of every options struct is safe: without admin keys all admin
//     routes return 403, without an opener no URL is allowed, a nil service has no
//     routes. The name of an option that weakens security begins with Dangerously.
//   - Times are UTC with milliseconds, which every driver and JavaScript keep.
//
// The threat model is in .github/SECURITY.md.
package canvasback
