package bundle

import (
	"cmp"
	"errors"
	"fmt"
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
	return tooLarge(fmt.Sprintf("the zip has too many entries: the limit is %d", limit))
}

func fileTooLarge(name string) error { return tooLarge(printable(name) + " is too large") }

// FileNote is the reason why a file was rejected or ignored.
type FileNote struct {
	File   string // path in the zip
	Reason string
}

// maxRejected is the maximum length of RejectedError.Files.
const maxRejected = 100

// RejectedError lists the files of an archive that cannot be imported. It
// matches [ErrInvalid].
type RejectedError struct {
	Files []FileNote // at most 100
	Count int        // of all rejected files
}

func (e *RejectedError) Error() string {
	switch {
	case e.Count == 1:
		return "1 file of the zip cannot be imported"
	case e.Count > len(e.Files):
		return fmt.Sprintf("%d files of the zip cannot be imported; the first %d are listed", e.Count, len(e.Files))
	}
	return fmt.Sprintf("%d files of the zip cannot be imported", e.Count)
}

// Is makes the error match [ErrInvalid].
func (e *RejectedError) Is(target error) bool { return target == ErrInvalid }

// fileError is the reason to reject one file. Other files are still read.
type fileError string

func (e fileError) Error() string { return string(e) }

// Limits bound what [Read] accepts from an archive.
type Limits struct {
	// Entries is the maximum number of entries, ignored ones included and the
	// manifest excluded. Zero means 10,000.
	Entries int

	// Symbol is the maximum size of one symbol's data in bytes. Zero means 50
	// MiB.
	Symbol int64

	// Total is the maximum size of all symbols' data in bytes, and also of
	// everything that is decompressed. Zero means 256 MiB.
	Total int64

	// Ratio is the maximum size of everything that is decompressed, divided
	// by the size of the archive. The first 4 MiB are exempt. Zero means 200.
	Ratio int64

	// DryRun makes Read return symbols without their data, which it checks one
	// after the other.
	DryRun bool

	// Reserve, if set, is called before anything is decompressed, with the
	// memory in bytes that Read and then a store need for the contents. Read
	// returns its error.
	Reserve func(size int64) error

	// Pause, if set, is called again and again while Read works. It may sleep,
	// so that a large archive leaves processor time to others.
	Pause func()
}

// ratioFreeBytes may be decompressed from any archive.
const ratioFreeBytes = 4 << 20

func (l *Limits) withDefaults() Limits {
	var given Limits
	if l != nil {
		given = *l
	}
	if given.Pause == nil {
		given.Pause = func() {}
	}
	// These caps prevent integer overflow.
	const maxCount, maxSize, maxRatio = 1<<31 - 1, 1 << 40, 1 << 20
	return Limits{
		Entries: min(cmp.Or(max(given.Entries, 0), 10_000), maxCount),
		Symbol:  min(cmp.Or(max(given.Symbol, 0), 50<<20), maxSize),
		Total:   min(cmp.Or(max(given.Total, 0), 256<<20), maxSize),
		Ratio:   min(cmp.Or(max(given.Ratio, 0), 200), maxRatio),
		DryRun:  given.DryRun,
		Reserve: given.Reserve,
		Pause:   given.Pause,
	}
}
