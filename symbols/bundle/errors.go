package bundle

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrInvalid matches errors about an archive that cannot be imported.
	// Their text may be shown to users.
	ErrInvalid = errors.New("bundle: invalid archive")

	// ErrTooLarge matches errors about an archive that exceeds its [Limits].
	// Their text may be shown to users.
	ErrTooLarge = errors.New("bundle: archive too large")
)

// invalid is an [ErrInvalid] with its own text.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// tooLarge is an [ErrTooLarge] with its own text.
type tooLarge string

func (e tooLarge) Error() string        { return string(e) }
func (e tooLarge) Is(target error) bool { return target == ErrTooLarge }

func tooManyEntries(limit int) error {
	return tooLarge(fmt.Sprintf("too many entries: the limit is %d", limit))
}

// fileTooLarge returns the error about a file that alone exceeds a limit.
func (a *archive) fileTooLarge(name string) error {
	if a.options.Skip {
		return fileError("too large")
	}
	return tooLarge(printable(name) + " is too large")
}

// FileNote is the reason why a file was rejected or ignored.
type FileNote struct {
	File   string // path in the zip
	Reason string
}

const maxRejected = 100 // in RejectedError.Files

// RejectedError lists the files of an archive that cannot be imported. It
// matches [ErrInvalid].
type RejectedError struct {
	Files []FileNote // at most 100
	Count int        // of all rejected files
}

func (e *RejectedError) Error() string {
	switch {
	case e.Count == 1:
		return "1 file cannot be imported"
	case e.Count > len(e.Files):
		return fmt.Sprintf("%d files cannot be imported; the first %d are listed", e.Count, len(e.Files))
	}
	return fmt.Sprintf("%d files cannot be imported", e.Count)
}

// Is makes the error match [ErrInvalid].
func (e *RejectedError) Is(target error) bool { return target == ErrInvalid }

// fileError is the reason to reject one file. Other files are still read.
type fileError string

func (e fileError) Error() string { return string(e) }

func printable(name string) string { return strings.ToValidUTF8(name, "\ufffd") }
