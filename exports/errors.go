package exports

import "errors"

var (
	// ErrNotFound means that no export is registered for a source URL.
	ErrNotFound = errors.New("exports: not registered")

	// ErrInvalid matches errors about invalid arguments. Their text starts with
	// the field's name on the wire and may be shown to clients.
	ErrInvalid = errors.New("exports: invalid field")

	// ErrUnavailable wraps any other error of the store, which is for the log
	// and not for clients.
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
)

// ForbiddenError is an [ErrForbidden] with a reason. [Opener.Check] returns it.
type ForbiddenError struct {
	// Reason depends on the URL alone, not on what a name resolves to or a
	// server returns, so it may be shown to clients.
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
