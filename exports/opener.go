package exports

import (
	"context"
	"io"
	"net/url"
	"time"
)

// Opener opens exported files. It must be safe for concurrent use.
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
	// promptly.
	Open(ctx context.Context, u *url.URL) (*File, error)
}

// File is an open exported file.
type File struct {
	// Body is the content. It is read once and closed by the caller. Read
	// returns io.EOF only at the true end of the file; any other error is
	// final, after all retries. An *os.File lets the kernel copy it.
	Body io.ReadCloser

	Size     int64     // in bytes, -1 if unknown
	Type     string    // content type, empty if unknown
	Name     string    // as the upstream proposes it, empty if it does not
	Modified time.Time // zero if unknown
	ETag     string    // with its quotes, empty if unknown
}
