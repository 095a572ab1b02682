package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"example.com/canvasback/exports"
)

// forbidden returns an [exports.ForbiddenError].
func forbidden(reason string) error { return &exports.ForbiddenError{Reason: reason} }

var (
	errStalled  = fmt.Errorf("nothing came for too long: %w", os.ErrDeadlineExceeded)
	errTooLarge = errors.New("the file is larger than allowed")
	errChanged  = errors.New("the file is not the same any more")
	errNoRest   = errors.New("the file has come to its end")
)

// failure is an error as an [exports.Opener] returns it.
func failure(ctx context.Context, address *url.URL, err error) error {
	kind := exports.ErrFailed
	if ctx.Err() != nil {
		err = ctx.Err()
		if cause := context.Cause(ctx); cause != err {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, exports.ErrForbidden):
		kind = exports.ErrForbidden
	case errors.Is(err, exports.ErrTimeout), errors.As(err, &timeout) && timeout.Timeout():
		kind = exports.ErrTimeout
	}
	return fmt.Errorf("%w: %s: %w", kind, exports.RedactURL(address.String()), err)
}
