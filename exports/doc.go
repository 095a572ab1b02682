// Package exports registers exported files and delivers them.
//
// A source URL identifies a drawing or document. At most one export is
// registered for it: the URL of its exported file. The source URL is only a
// lookup key and is never opened. If none is registered, [Options.Resolve] may return
// the export when a client asks for it. The exported URL is opened by an [Opener],
// such as those of packages fetch, files and s3, or one of the application's own.
//
// # Batches
//
// A batch is a zip archive that is written while its files are read, several in
// parallel: nothing is stored on disk, and memory does not grow with the size or number
// of files. Each item ends as exactly one file or one [Skipped] element, which the last
// entry of the archive, manifest.json, lists.
//
// # Links
//
// A [Link] delivers one file or a zip of several to a client without a key. Its plan is
// stored when it is made: the names, times, sizes and forms of the entries, and the
// [File.Validator] of each file. Any process delivers any range of the same bytes as
// long as the link has the same ETag. A file that is not the planned one ends the plan:
// [Link.Serve] makes another, with another ETag, and never mixes two states of a file.
// A link to a file without a Validator is not resumable. In place of its URL, a client
// gets a link to a private file: see [PrivateOpener].
//
// To send a range of a zip, the server needs only the CRC-32 of the files outside of it.
// It follows from the CRCs of the blocks that all processes have read, of 16 KiB or more,
// which a [LinkStore] keeps as a [Fact]; what is missing is read after the content. A link
// returns no byte of a block before it is compared with earlier reads. A difference
// shows a Validator that did not change with the content: the response fails, and the
// revision of the fact is raised, which outdates all plans that depend on it.
//
// # Failures
//
// A failure before the first byte of a file is an error, or a skipped item of a
// batch. A later failure is an error of Read or [Batch.WriteZip]; the caller must
// then abort the response, so that it does not look complete to the client. Texts
// for clients reveal no cause; errors wrap it for the log.
package exports
