package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound means that no export is registered for a source URL.
	ErrNotFound = errors.New("exports: not registered")

	// ErrNotOwner means that another registrant has registered the export.
	ErrNotOwner = errors.New("exports: registered by another")

	// ErrPrivate means that a registration is limited to public files.
	ErrPrivate = errors.New("exports: the file is private")

	// ErrTaken means that two tenants have an export of one source.
	ErrTaken = errors.New("exports: source is taken")

	// ErrLinkNotFound means that a download link is unknown or has expired.
	ErrLinkNotFound = errors.New("exports: no such link")

	// ErrInvalid matches errors about an invalid argument. Their text begins
	// with the field's JSON name and may be shown to users.
	ErrInvalid = errors.New("exports: invalid field")

	// ErrTooLarge means that a download link has too many or too long items.
	ErrTooLarge = errors.New("items are too long for a link")

	// ErrTooManyLinks means that a key, or a client of it, has as many links as it may.
	ErrTooManyLinks = errors.New("this client has too many download links")

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

	// ErrTimeout means that a file did not begin in time. It is a [context.DeadlineExceeded].
	ErrTimeout = fmt.Errorf("exports: file takes too long: %w", context.DeadlineExceeded)

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

// NotReadyError is an error of [Options.Resolve]: the file is being made.
type NotReadyError struct {
	RetryAfter time.Duration // 1 second to a day; 5 seconds if zero
}

func (e *NotReadyError) Error() string { return "exports: the file is not ready" }

// CauseError is an error of an [Opener] with a cause for administrators, without secrets.
type CauseError struct {
	Code  string // of an object store, such as AccessDenied; may be empty
	Cause string // such as "the connection is refused"
	Err   error  // [ErrFailed] if nil
}

func (e *CauseError) Error() string { return e.Unwrap().Error() }
func (e *CauseError) Unwrap() error { return cmp.Or(e.Err, ErrFailed) }

// BatchError means that no item of a batch can be delivered. It wraps the first of
// these for which there is an item: [ErrFailed], [NotReadyError] with the longest time,
// [ErrTimeout], [ErrNotFound].
type BatchError struct {
	Skipped []Skipped // one for each item, in the order of the request
	Err     error
}

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// newBatchError returns the error of a batch without any file.
func newBatchError(skipped []Skipped) *BatchError {
	var notReady *NotReadyError
	var timeout error
	for _, s := range skipped {
		if e, ok := errors.AsType[*NotReadyError](s.Err); ok {
			if notReady == nil || notReady.RetryAfter < e.RetryAfter {
				notReady = e
			}
			continue
		}
		switch kind := kindOf(s.Err); {
		case kind == ErrTimeout:
			timeout = ErrTimeout
		case kind != nil, !errors.Is(s.Err, ErrNotFound) && !errors.Is(s.Err, ErrInvalid):
			return &BatchError{skipped, fmt.Errorf("%w: %w", ErrFailed, s.Err)}
		}
	}
	if notReady != nil {
		return &BatchError{skipped, notReady}
	}
	return &BatchError{skipped, cmp.Or(timeout, ErrNotFound)}
}

// invalid is an [ErrInvalid] with its own text.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// storeError returns nil and the errors that [Store] and [LinkStore] document, and wraps
// all others in [ErrUnavailable].
func storeError(operation string, err error) error {
	for _, documented := range []error{nil, ErrNotFound, ErrNotOwner, ErrTaken, ErrLinkNotFound, ErrTooManyLinks} {
		if errors.Is(err, documented) {
			return err
		}
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}

// openError wraps err in one of the errors of an [Opener], unless it already
// matches one or is nil. The argument cause is the cause of the ended context, or nil.
func openError(err, cause error) error {
	switch {
	case err == nil:
		return nil
	case cause == ErrTimeout && !errors.Is(err, ErrTimeout):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrTimeout), errors.Is(err, ErrFailed):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// kindOf returns which of the errors of an [Opener] err is, whatever else it wraps, or nil.
func kindOf(err error) error {
	for _, kind := range []error{ErrTimeout, ErrForbidden, ErrGone, ErrChanged, ErrFailed} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// isLost reports whether an error means that a file has changed or does not exist any
// more, so that its link must be renewed.
func isLost(err error) bool {
	return errors.Is(err, ErrChanged) || errors.Is(err, ErrGone) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrNotFound)
}
