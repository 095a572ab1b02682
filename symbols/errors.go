package symbols

import (
	"errors"
	"fmt"
)

var (
	// ErrFolderNotFound means that no folder has the id.
	ErrFolderNotFound = errors.New("symbols: folder not found")

	// ErrSymbolNotFound means that no symbol has the id.
	ErrSymbolNotFound = errors.New("symbols: symbol not found")

	// ErrTrashNotFound means that no entry of the trash has the id.
	ErrTrashNotFound = errors.New("symbols: trash entry not found")

	// ErrFolderGone means that the folder of a symbol to restore was deleted.
	ErrFolderGone = errors.New("symbols: folder of the symbol is gone")

	// ErrFolderNameTaken means that another folder has the name.
	ErrFolderNameTaken = errors.New("symbols: folder name is taken")

	// ErrChanged means that a conditional change failed: the folder or symbol
	// has none of the expected versions.
	ErrChanged = errors.New("symbols: version does not match")

	// ErrInvalid matches errors about an invalid field. Their text begins
	// with the field's JSON name and may be shown to users.
	ErrInvalid = errors.New("symbols: invalid field")

	// ErrUnavailable means that the store failed. It wraps the store's error,
	// which is for logs only.
	ErrUnavailable = errors.New("symbols: store unavailable")
)

// MissingError is an [ErrSymbolNotFound] or [ErrFolderNotFound] with the id.
type MissingError struct {
	Err error
	ID  int64
}

func (e *MissingError) Error() string { return fmt.Sprintf("%v: %d", e.Err, e.ID) }
func (e *MissingError) Unwrap() error { return e.Err }

// invalid is an [ErrInvalid] with its own text.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// storeError returns the errors that [Store] documents and wraps all others in
// ErrUnavailable.
func storeError(operation string, err error) error {
	for _, documented := range []error{
		nil, ErrFolderNotFound, ErrSymbolNotFound, ErrTrashNotFound, ErrFolderGone, ErrInvalid, ErrFolderNameTaken, ErrChanged,
	} {
		if errors.Is(err, documented) {
			return err
		}
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}
