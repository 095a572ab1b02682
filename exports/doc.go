// Package exports registers exported files and delivers them.
//
// A source URL stands for a drawing or document. At most one export is
// registered for each: the URL of its exported file. The source URL is only a
// lookup key and is never opened. The exported URL is opened by an [Opener],
// such as those of packages fetch and files.
//
// # Batches
//
// A single download is one file. A batch is a zip archive that is written while
// its files are read: nothing is stored on disk, and memory does not grow with
// the size or number of files. Files are prefetched in parallel. Each item of a
// batch ends as exactly one file or one [Skipped] element. If any item was
// skipped, the last entry of the archive, manifest.json, lists them.
//
// The size of a batch is known if all its files are open with known size before
// the first byte is written. A file that fails later than that breaks the
// archive instead of being skipped.
//
// # Failures
//
// A failure before the first byte of a file is an error, or a skipped item of a
// batch. A later failure is an error of reading or writing, and the caller must
// abort the response so that the client does not take it for complete. Texts
// for clients are few and coarse; errors wrap the cause for the log.
package exports
