package keys

import (
	"errors"
	"fmt"
	"runtime/debug"
)

var (
	// ErrNotFound says that no key has the id.
	ErrNotFound = errors.New("keys: no such key")

	// ErrInvalid is what every refused field matches. The text of such an
	// error starts with the field's name on the wire and is fit to be shown.
	ErrInvalid = errors.New("keys: invalid field")

	// ErrUnavailable says that the store could not answer. It wraps the
	// store's own error, which is for the log and not for a caller.
	ErrUnavailable = errors.New("keys: store unavailable")
)

// Refusals of [Service.Verify].
var (
	// ErrMalformed refuses text that does not have the shape of a raw key.
	ErrMalformed = errors.New("keys: not a raw key")

	// ErrUnknown refuses a well-formed raw key that belongs to no record.
	ErrUnknown = errors.New("keys: unknown raw key")

	// ErrInactive refuses the raw key of a deactivated record.
	ErrInactive = errors.New("keys: key is inactive")

	// ErrExpired refuses the raw key of a record that has expired.
	ErrExpired = errors.New("keys: key has expired")
)

// invalid is an ErrInvalid with a text of its own.
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
// calls of the store in goroutines of the Service, where a panic would end the
// process.
func recoverToError(err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", ErrUnavailable, reason, debug.Stack())
	}
}
