package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"example.com/canvasback/exports"
)

var (
	errIdleTimeout = fmt.Errorf("idle timeout: %w", os.ErrDeadlineExceeded)
	errTooLarge    = errors.New("file exceeds the size limit")
	errNoRange     = errors.New("no response to a range request")
)

// wrapError wraps err in an error that [exports.Opener] documents.
func wrapError(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
		if cause := context.Cause(ctx); cause != err {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	switch {
	case errors.Is(err, exports.ErrForbidden), errors.Is(err, exports.ErrChanged):
	case errors.Is(err, exports.ErrTimeout), isTimeout(err):
		err = fmt.Errorf("%w: %w", exports.ErrTimeout, err)
	default:
		err = fmt.Errorf("%w: %w", exports.ErrFailed, err)
	}
	return fmt.Errorf("fetch: %s: %w", redact(u), err)
}

// isTimeout reports whether err is a timeout. The resolver of the operating system
// does not distinguish it from other temporary failures; Go's, which names the
// server, does.
func isTimeout(err error) bool {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.Server == "" && e.IsTemporary && !e.IsNotFound {
		return true
	}
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func redact(u *url.URL) string { return exports.RedactURL(u.String()) }
