// Package exports finds and delivers exported files.
//
// A source address stands for a drawing or document. For each one at most one
// export is registered: the address where its exported file lies. A source
// address is only ever looked up, never opened; what is opened is the exported
// address, by an [Opener] such as those of the packages fetch and files.
//
// A single download is one file. A batch is a zip of many, written while they
// are read: nothing is kept on disk and memory does not grow with the size or
// the number of files. Each item of a batch ends as exactly one file or one
// [Skipped] element; when something was skipped, the zip says so in an entry
// named manifest.json.
//
// # Failures
//
// What fails before a file has begun is an error, or a skipped element of a
// batch. What fails later is an error of reading or writing, and the caller
// must make sure that the client cannot take the torn answer for a whole one.
// The texts that reach a client are few and coarse; the cause is wrapped for
// the log.
package exports
