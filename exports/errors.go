package exports

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrNotFound means that no export is registered for a source URL.
	ErrNotFound = errors.New("exports: not registered")

	// ErrNotOwner means that another registrant has registered the export.
	ErrNotOwner = errors.New("exports: registered by another")

	// ErrLinkNotFound means that a download link is unknown or has expired.
	ErrLinkNotFound = errors.New("exports: no such link")

	// ErrInvalid matches errors about an invalid argument. Their text begins
	// with the field's JSON name and may be shown to users.
	ErrInvalid = errors.New("exports: invalid field")

	// ErrUnavailable means that the store failed. It wraps the store's error,
	// which is for logs only.
	ErrUnavailable = errors.New("exports: store unavailable")
)

// Errors of an [Opener].
var (
	// ErrForbidden means that a URL may not be opened.
	ErrForbidden = errors.New("exports: URL is not allowed")

	// ErrFailed means that a file cannot be fetched.
	ErrFailed = errors.New("exports: file cannot be fetched")

	// ErrTimeout means that the first byte of a file did not arrive in time.
	ErrTimeout = errors.New("exports: file takes too long")

	// ErrGone is an [ErrFailed]: there is no file at the URL. A retry later
	// is not expected to succeed.
	ErrGone = fmt.Errorf("%w: it does not exist", ErrFailed)

	// ErrChanged is an [ErrFailed]: the file is not the one that a [Part]
	// describes.
	ErrChanged = fmt.Errorf("%w: it has changed", ErrFailed)
)

// ForbiddenError is an [ErrForbidden] with a reason. [Opener.Check] returns it.
type ForbiddenError struct {
	// Reason may be shown to users. It depends on the URL alone, not on DNS
	// or on the response of a server.
	Reason string
}

func (e *ForbiddenError) Error() string        { return ErrForbidden.Error() + ": " + e.Reason }
func (e *ForbiddenError) Is(target error) bool { return target == ErrForbidden }

// BatchError means that no item of a batch can be delivered. It wraps
// [ErrNotFound] if none is registered, [ErrTimeout] if all registered ones timed
// out, and [ErrFailed] otherwise.
type BatchError struct {
	Skipped []Skipped // one for each item, in the order of the request
	Err     error
}

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// invalid is an [ErrInvalid] with its own text.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// recoverToError converts a panic of an [Opener] or a [Store] to an error, in a
// goroutine where it would end the process.
func recoverToError(err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrFailed, reason, debug.Stack())
	}
}
