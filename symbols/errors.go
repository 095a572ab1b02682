package symbols

import "errors"

var (
	// ErrFolderNotFound says that no folder has the id.
	ErrFolderNotFound = errors.New("symbols: no such folder")

	// ErrSymbolNotFound says that no symbol has the id.
	ErrSymbolNotFound = errors.New("symbols: no such symbol")

	// ErrFolderNameTaken says that another folder has the name.
	ErrFolderNameTaken = errors.New("symbols: folder name is taken")

	// ErrChanged says that a folder or symbol no longer has any of the
	// versions for which a change was meant.
	ErrChanged = errors.New("symbols: changed in the meantime")

	// ErrInvalid is what every refused field matches. The text of such an
	// error starts with the field's name on the wire and is fit to be shown.
	ErrInvalid = errors.New("symbols: invalid field")

	// ErrUnavailable says that the store could not answer. It wraps the
	// store's own error, which is for the log and not for a caller.
	ErrUnavailable = errors.New("symbols: store unavailable")
)

// invalid is an ErrInvalid with a text of its own.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }
