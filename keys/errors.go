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

	// ErrUnavailable means that the store failed. It wraps the store's error,
	// which is for logs only.
	ErrUnavailable = errors.New("keys: store unavailable")
)

// Errors of [Service.Verify].
var (
	// ErrMalformed means that the text does not have the format of a raw key.
	ErrMalformed = errors.New("keys: malformed raw key")

	// ErrUnknown means that a well-formed raw key belongs to no record.
	ErrUnknown = errors.New("keys: unknown raw key")

	// ErrInactive means that the key is deactivated.
	ErrInactive = errors.New("keys: key is inactive")

	// ErrExpired means that the key has expired.
	ErrExpired = errors.New("keys: key has expired")
)

// invalid is an error with its own text that matches ErrInvalid.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

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
