package fetch

import (
	"context"
	"errors"
	"fmt"
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
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, exports.ErrForbidden), errors.Is(err, exports.ErrChanged):
	case errors.Is(err, exports.ErrTimeout), errors.As(err, &timeout) && timeout.Timeout():
		err = fmt.Errorf("%w: %w", exports.ErrTimeout, err)
	default:
		err = fmt.Errorf("%w: %w", exports.ErrFailed, err)
	}
	return fmt.Errorf("fetch: %s: %w", redact(u), err)
}

func redact(u *url.URL) string { return exports.RedactURL(u.String()) }
