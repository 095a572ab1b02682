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
// # Length
//
// The length of a zip is known before it is written if every file has been
// opened so early, or its size is remembered from the last batch that read it
// to its end. A length that was told is kept or the zip breaks:
//
//   - A file that cannot be had is still left out. What the zip lacks then is
//     made up for by padding, which readers do not show. So it is if a file has
//     become smaller. A batch with a file so small that the manifest's words
//     about it would take more room has no length.
//   - If more than a quarter of the zip, and more than 1 MiB, would be padding,
//     or if a file has grown, the zip breaks. What is remembered of its files
//     is forgotten, so that the next try has no length to keep.
//   - A size is remembered for [Options.RememberFor], and counts only until its
//     source is registered again; and not if it has changed twice in that time.
//
// # Failures
//
// What fails before a file has begun is an error, or a skipped element of a
// batch. What fails later is an error of reading or writing, and the caller
// must make sure that the client cannot take the torn answer for a whole one.
// The texts that reach a client are few and coarse; the cause is wrapped for
// the log.
package exports
