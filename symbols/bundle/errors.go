package bundle

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is what the error for an unusable archive matches. Its text
	// is fit to be shown.
	ErrInvalid = errors.New("bundle: unusable archive")

	// ErrTooLarge is what the error for an archive beyond [Limits] matches.
	// Its text is fit to be shown.
	ErrTooLarge = errors.New("bundle: archive too large")
)

// invalid is an ErrInvalid with a text of its own.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// tooLarge is an ErrTooLarge with a text of its own.
type tooLarge string

func (e tooLarge) Error() string        { return string(e) }
func (e tooLarge) Is(target error) bool { return target == ErrTooLarge }

func tooManyEntries(most int) error {
	return tooLarge(fmt.Sprintf("the zip has too many entries: there may be %d", most))
}

func fileTooLarge(name string) error { return tooLarge(printable(name) + " is too large") }

// Remark says why a file was refused or ignored.
type Remark struct {
	File   string // its name in the zip
	Reason string
}

// maxRefused is how many refused files are named.
const maxRefused = 100

// RefusedError says which files of an archive cannot be imported. It matches
// [ErrInvalid].
type RefusedError struct {
	Refused []Remark // the first 100
	Count   int      // of all
}

func (e *RefusedError) Error() string {
	switch {
	case e.Count == 1:
		return "1 file of the zip cannot be imported"
	case e.Count > len(e.Refused):
		return fmt.Sprintf("%d files of the zip cannot be imported, of which the first %d are listed", e.Count, len(e.Refused))
	}
	return fmt.Sprintf("%d files of the zip cannot be imported", e.Count)
}

// Is makes the error match [ErrInvalid].
func (e *RefusedError) Is(target error) bool { return target == ErrInvalid }

// refusal is a reason to refuse a file.
type refusal string

func (e refusal) Error() string { return string(e) }
