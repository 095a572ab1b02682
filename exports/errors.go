package exports

import "errors"

var (
	// ErrNotFound says that no export is registered for a source address.
	ErrNotFound = errors.New("exports: not registered")

	// ErrInvalid is what every refused field matches. The text of such an
	// error starts with the field's name on the wire and is fit to be shown.
	ErrInvalid = errors.New("exports: invalid field")

	// ErrUnavailable says that the store could not answer. It wraps the
	// store's own error, which is for the log and not for a caller.
	ErrUnavailable = errors.New("exports: store unavailable")
)

// Failures of an [Opener].
var (
	// ErrForbidden says that an address may not be opened.
	ErrForbidden = errors.New("exports: address is not allowed")

	// ErrFailed says that a file cannot be had from where it should be.
	ErrFailed = errors.New("exports: file cannot be fetched")

	// ErrTimeout says that a file took too long to begin.
	ErrTimeout = errors.New("exports: file takes too long")
)

// ForbiddenError is an [ErrForbidden] with a reason. [Opener.Check] returns it.
type ForbiddenError struct {
	// Reason rests on the URL alone, not on what a name resolves to or a
	// server returns, so it may be shown to clients.
	Reason string
}

func (e *ForbiddenError) Error() string        { return ErrForbidden.Error() + ": " + e.Reason }
func (e *ForbiddenError) Is(target error) bool { return target == ErrForbidden }

// invalid is an ErrInvalid with a text of its own.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// BatchError says that no item of a batch can be delivered. It wraps
// [ErrNotFound] if none is registered, [ErrTimeout] if all took too long, and
// [ErrFailed] otherwise.
type BatchError struct {
	Skipped []Skipped // one for each item, in the order of the request
	Err     error
}

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }
