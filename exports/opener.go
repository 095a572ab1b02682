package exports

import (
	"context"
	"io"
	"net/url"
	"time"
)

// Opener opens exported files. It must be safe for concurrent use. URLs may have
// any scheme, and always have a host.
//
// A type that embeds an Opener as an interface does not have the methods of the optional
// interfaces: without those of [PrivateOpener] and [Presigner], clients get the URLs of
// private files. Embed the Opener as the type that it has, and with Open, if that returns
// other content, replace Stat and OpenRange, which links use.
type Opener interface {
	// Serves reports whether u belongs to this Opener. The first one in
	// [Options.Openers] that serves a URL checks and opens it.
	Serves(u *url.URL) bool

	// Check returns an error that wraps [ErrForbidden] if the URL alone
	// shows that the file may not be opened. It does no I/O. The Reason of a
	// [ForbiddenError] is shown to the client that registers the URL.
	Check(u *url.URL) error

	// Open opens the file at u. Check accepted u when it was registered; Open
	// must check it again. It returns when the first byte has arrived or the
	// file is known to be empty. The error wraps [ErrForbidden],
	// [ErrTimeout] or [ErrFailed]. When ctx ends, reads of the file must fail
	// promptly. Nothing else ends them: if the upstream can stall, the Opener
	// needs an idle timeout.
	Open(ctx context.Context, u *url.URL) (*File, error)
}

// RangeOpener is an optional interface of an [Opener] that can read parts of a
// file. Downloads from other Openers cannot be resumed.
type RangeOpener interface {
	Opener

	// Stat returns the File at u without its Body, which is nil. Its errors
	// are those of Open.
	Stat(ctx context.Context, u *url.URL) (*File, error)

	// OpenRange opens a part of the file at u. Its errors are those of Open;
	// also, the error wraps [ErrChanged] if the file is no longer the one
	// that part describes, or if the Opener cannot tell.
	//
	// Read returns io.EOF after exactly part.Length bytes. Any other error is
	// final, after all retries, and wraps [ErrChanged] if the file changed
	// during the read. The bytes read until then are of the described file.
	//
	// The caller closes the reader. When ctx ends, Read must fail promptly.
	OpenRange(ctx context.Context, u *url.URL, part Part) (io.ReadCloser, error)
}

// AdaptiveOpener is an optional interface of an [Opener] that finds out how many
// requests a host can serve.
type AdaptiveOpener interface {
	Opener

	// Concurrency returns how many files of the host of u one download may
	// have open at a time, at least 1. It is called often.
	Concurrency(u *url.URL) int
}

// Presigner is an optional interface of an [Opener] whose files clients cannot
// download without credentials.
type Presigner interface {
	Opener

	// PublicURL returns a URL at which anyone can download the file at u for
	// a limited time, under a clean file name unless that is empty. Check
	// accepted u when it was registered; PublicURL must check it again. It
	// sends no request to the upstream. Its errors are those of Open.
	PublicURL(ctx context.Context, u *url.URL, fileName string) (string, error)
}

// PrivateOpener is an optional interface of an [Opener] with files at http and https URLs
// that clients cannot download. Files at URLs of other schemes are always private. Those of
// a [Presigner] have a URL of their own; others have a download link.
type PrivateOpener interface {
	Opener

	// IsPrivate reports whether the file at u is private. It does no I/O.
	IsPrivate(u *url.URL) bool
}

// Part is a part of a file that has not changed since [Opener.Open] or
// [RangeOpener.Stat].
type Part struct {
	Validator string // of the File, not empty
	Size      int64  // of the complete File, -1 to accept any
	Offset    int64  // of the first byte, at most Size
	Length    int64  // in bytes; Offset+Length is at most Size
}

// File is an open exported file.
type File struct {
	// Body is the content. It is read once and closed by the caller. Read
	// returns io.EOF only at the true end of the file; any other error is
	// final, after all retries. An *os.File lets the kernel copy it.
	Body io.ReadCloser

	Size     int64     // in bytes, -1 if unknown. A longer file is rejected, or cut off.
	Type     string    // content type, empty if unknown
	Name     string    // as the upstream proposes it, empty if it does not
	Modified time.Time // zero if unknown
	ETag     string    // with its quotes, empty if unknown

	// Validator identifies the content: two reads of a URL with the same
	// Validator return the same bytes. Its format is that of the Opener. It
	// is empty if the content may change unnoticed; a longer one than 1 KiB counts as empty.
	Validator string
}
