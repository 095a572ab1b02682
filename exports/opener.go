package exports

import (
	"context"
	"io"
	"net/url"
	"time"
)

// Opener opens exported files. It is safe for concurrent use.
type Opener interface {
	// Serves reports whether an address is this Opener's to judge and to
	// open. The first one of [Options.Openers] that says so is asked.
	Serves(address *url.URL) bool

	// Check returns an error that wraps [ErrForbidden] if the URL alone
	// shows that the file may not be opened. It does no I/O. The Reason of a
	// [ForbiddenError] is shown to the client that registers the URL.
	Check(address *url.URL) error

	// Open opens the file at the address, which Check has accepted at some
	// time but perhaps would no more. It returns once the first byte is
	// there or the file is known to be empty. The error wraps
	// [ErrForbidden], [ErrTimeout] or [ErrFailed].
	//
	// The file is bound to ctx: when ctx ends, reading fails soon.
	Open(ctx context.Context, address *url.URL) (*File, error)
}

// File is an exported file that has been opened.
type File struct {
	// Body is the file's content, to be read once and closed. A Read that
	// fails with anything but io.EOF has lost the file: whatever could be
	// tried again has been. EOF is only ever the true end. If Body is an
	// *os.File, so much the better: the kernel can copy it.
	Body io.ReadCloser

	Size     int64     // in bytes; -1 if unknown
	Type     string    // content type, empty if unknown
	Name     string    // as the origin proposes it, empty if it does not
	Modified time.Time // zero if unknown
	ETag     string    // entity tag, quotes included; empty if unknown
}
