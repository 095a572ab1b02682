// Package canvasback is the back end that a viewer of documents or drawings
// needs, as packages that any Go program mounts: it issues and checks client
// API keys, delivers exported files, and keeps a library of drawing symbols.
//
// This package holds no code. It is the map of the others.
//
// # Packages
//
//	keys      issues client keys and checks them
//	symbols   keeps symbols in folders
//	  bundle    carries those of a folder in a zip
//	exports   finds exported files and delivers them, singly or as a zip
//	  fetch     opens files on other machines, behind an address guard
//	  files     opens files on this machine's disk
//	  filename  makes names that every file system takes
//	httpapi   serves all three as an http.Handler
//	  apitest   runs it for the tests of a host
//	  console   a web page for it
//	storage   says what a storage driver promises
//	  memory, sqlite, postgres   the drivers
//	  storagetest                the test suite that defines a driver
//
// Each of the three domains has one concrete Service with all its rules, and a
// small Store interface, whose comments are the manual for a driver's author.
// Imports point one way only, and a test holds them to it:
//
//	  your program, examples
//	   |                  |
//	httpapi      storage drivers, exports/fetch, exports/files
//	   |                  |
//	   +--- keys, symbols, exports ---+
//
// The domains know neither HTTP nor a database nor each other; httpapi knows
// no driver; drivers do not know each other. Only the program that puts them
// together sees both sides.
//
// # The life of a request
//
// The handler gives the answer a request id, answers a CORS preflight itself,
// and finds the route in the one table of httpapi (routes.go). The route's
// guard checks the admin key or the client key. A generic helper reads the id
// and the JSON body strictly, calls the endpoint with a deadline for the
// store, and writes the answer; downloads write their own. The endpoint calls
// a Service, which checks the fields and calls its Store. Errors travel back
// as sentinels of the domains, and one table of httpapi (errors.go) says with
// which status and code each is answered. What the sentinel wraps goes to the
// log and never to the client.
//
// # Mounting
//
// Open a storage, migrate it, make the services, and mount the handler under
// a prefix of your choice:
//
//	mux.Handle("/api/", httpapi.Handler(httpapi.Options{Prefix: "/api", ...}))
//
// Run [example.com/canvasback/keys.Service.Run] beside the server: it lets key
// checks be answered from memory, and writes the times of last use. The
// example below is a whole program. The folder examples has a server of its
// own, configured by environment variables, and a host with its own routes
// that asks for client keys too.
//
// # Choices
//
//   - A driver is thin: identity, uniqueness, references, versions. Whatever
//     can be decided once is decided in a Service.
//   - Records are changed by a function inside the driver's transaction, so a
//     partial update and a rotation are the same operation and no update is
//     lost.
//   - Constructors do no I/O, start no goroutine and read no environment.
//   - The zero value of every options struct is safe: no admin key refuses all
//     admin routes, no opener allows no address, a nil service has no routes.
//     What weakens security has a name that says so.
//   - Time is UTC in milliseconds, which every driver and JavaScript keep.
//
// # Threat model
//
// Worth guarding are raw keys, admin keys and peppers; the say over client
// keys, symbols and registered exports; the network that the server reaches;
// and that it goes on answering. What those can do who may be hostile:
//
//   - Whoever can connect learns which routes there are and whether a key is
//     right, and nothing else. Wrong keys are counted by address and answered
//     429 beyond a bound, which makes guessing show; it is the length of a key
//     that makes it hopeless. A refusal reads 256 KiB of a body at most, for a
//     second at most.
//   - A client key opens every client route for everything there is: no record
//     has an owner, and there are no quotas. By default it registers exports
//     too. It then chooses what others get for a source, has the server fetch
//     any public address and those of hosts that were allowed by name, and
//     reads whatever an opener of local files serves.
//   - An admin key issues client keys, and so has all that they open. It sees
//     raw keys that it issues or rotates itself, and no others.
//   - The origin of an exported file sees nothing of a client. It can answer
//     with any bytes, which are passed on as an attachment under a clean name;
//     with as many as it likes, unless fetch.Options.MaxBytes says otherwise;
//     as slowly as the time-outs allow; and with redirects, which are judged
//     like the first address.
//   - Who reads the database or a copy of it has all symbols and addresses, and
//     no key: a digest of 256 random bits cannot be turned round. Who writes to
//     it can bring back a key that was revoked, and admit one of his own unless
//     every digest has a pepper.
//   - Who reads the memory of the process, or what goes over a wire without
//     TLS, has everything.
//
// A host has to do its part. It ends TLS, or something in front of it does. Its
// http.Server has ReadHeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout,
// MaxHeaderBytes and httpapi.ConnContext, as that of examples/standalone: the
// handler bounds bodies and downloads that stand still, but not connections,
// and holds a body in memory while it reads it. Admin keys have 128 random bits
// or more. Behind a proxy, httpapi.RateLimit.ClientIP says where a request comes
// from. RegisterWith says who registers, where clients are not trusted with
// that, and AllowedHosts of exports/fetch names no host that they may not
// reach. Peppers and admin keys are kept outside the database. Logs hold key
// ids, request ids as clients sent them, and addresses without their queries;
// they hold no keys.
package canvasback
