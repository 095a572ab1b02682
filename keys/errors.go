package keys

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrNotFound means that no key has the id.
	ErrNotFound = errors.New("keys: key not found")

	// ErrInvalid matches errors about an invalid field. Their text begins
	// with the field's JSON name and may be shown to users.
	ErrInvalid = errors.New("keys: invalid field")

	// ErrNotPermitted matches errors of [Service.IssueToken] whose text may be shown to
	// users.
	ErrNotPermitted = errors.New("keys: not permitted")

	// ErrUnavailable means that the store failed. It wraps the store's error,
	// which is for logs only.
	ErrUnavailable = errors.New("keys: store unavailable")
)

// Errors of [Service.Verify].
var (
	// ErrMalformed means that the text has the format of neither a raw key nor a page
	// token, or that a token ends too late.
	ErrMalformed = errors.New("keys: malformed raw key")

	// ErrUnknown means that a well-formed raw key belongs to no record, or that no
	// such key has signed the page token.
	ErrUnknown = errors.New("keys: unknown raw key")

	// ErrInactive means that the key is deactivated.
	ErrInactive = errors.New("keys: key is inactive")

	// ErrExpired means that the key has expired.
	ErrExpired = errors.New("keys: key has expired")

	// ErrTokenExpired means that a page token has expired.
	ErrTokenExpired = errors.New("keys: page token has expired")

	// SkipUse is for the function of [Service.VerifyFunc]: the check succeeds, and
	// is no use of the key.
	SkipUse = errors.New("keys: skip use") //nolint:staticcheck // no failure, like fs.SkipDir
)

// MissingError names one of several keys that does not exist. It matches [ErrNotFound].
type MissingError struct{ ID int64 }

func (e *MissingError) Error() string        { return fmt.Sprintf("no API key has the id %d", e.ID) }
func (e *MissingError) Is(target error) bool { return target == ErrNotFound }

// TakenError names one of several imported keys whose digest exists already.
type TakenError struct{ Index int }

func (e *TakenError) Error() string {
	return fmt.Sprintf("keys[%d].sha256 is that of another key", e.Index)
}

// textError is an error with its own text that matches another one.
type textError struct {
	text  string
	match error
}

func (e *textError) Error() string        { return e.text }
func (e *textError) Is(target error) bool { return target == e.match }

// invalid returns an error that matches ErrInvalid, with a text as fmt.Sprintf makes it.
func invalid(format string, args ...any) error {
	return &textError{fmt.Sprintf(format, args...), ErrInvalid}
}

// storeError wraps an error of the store in [ErrUnavailable], except nil and
// [ErrNotFound].
func storeError(operation string, err error) error {
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}

// recoverToError turns a panic into an [ErrUnavailable]. It is deferred around
// store calls in goroutines of the Service, where a panic would end the process.
func recoverToError(err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrUnavailable, reason, debug.Stack())
	}
}
