package bundle

import (
	"cmp"
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

// Defaults of [Limits].
const (
	DefaultEntries = 10_000
	DefaultSymbol  = 50 << 20
	DefaultTotal   = 256 << 20
	DefaultRatio   = 200
)

// Limits bound what [Read] takes from an archive. A zero stands for the
// default.
type Limits struct {
	// Entries is how many entries an archive may have beside its manifest,
	// ignored ones included.
	Entries int

	// Symbol is how many bytes of data a symbol may have, and Total how many
	// all of them may have. Total bounds all that comes out of the archive
	// too.
	Symbol int64
	Total  int64

	// Ratio is how many times its size an archive may expand to, beyond the
	// first 4 MiB.
	Ratio int64
}

// freeOfRatio is what any archive may expand to.
const freeOfRatio = 4 << 20

func (l *Limits) orDefaults() Limits {
	var given Limits
	if l != nil {
		given = *l
	}
	// Beyond these there is nothing to bound, and sums stay small.
	const count, size, ratio = 1<<31 - 1, 1 << 40, 1 << 20
	return Limits{
		Entries: min(cmp.Or(max(given.Entries, 0), DefaultEntries), count),
		Symbol:  min(cmp.Or(max(given.Symbol, 0), DefaultSymbol), size),
		Total:   min(cmp.Or(max(given.Total, 0), DefaultTotal), size),
		Ratio:   min(cmp.Or(max(given.Ratio, 0), DefaultRatio), ratio),
	}
}
