package symbols

import (
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"
)

// Bounds of text fields in Unicode code points.
const (
	MaxName = 255
	MaxType = 255
)

// checkText accepts what every store can keep: valid UTF-8 without NUL.
func checkText(field, text string) error {
	if !utf8.ValidString(text) {
		return invalid(field + " must be valid UTF-8")
	}
	if strings.ContainsRune(text, 0) {
		return invalid(field + " must not contain a NUL character")
	}
	return nil
}

// checkName accepts 1 to MaxName code points that are not only white space.
func checkName(name string) error {
	if err := checkText("name", name); err != nil {
		return err
	}
	if strings.TrimSpace(name) == "" {
		return invalid("name must not be empty")
	}
	if utf8.RuneCountInString(name) > MaxName {
		return invalid(fmt.Sprintf("name must have at most %d characters", MaxName))
	}
	return nil
}

// checkType accepts a media type (RFC 9110, section 8.3.1), parameters
// included.
func checkType(text string) error {
	if err := checkText("type", text); err != nil {
		return err
	}
	if utf8.RuneCountInString(text) > MaxType {
		return invalid(fmt.Sprintf("type must have at most %d characters", MaxType))
	}
	if mediaType, _, err := mime.ParseMediaType(text); err != nil || !strings.Contains(mediaType, "/") {
		return invalid(`type must be a MIME type such as "image/svg+xml"`)
	}
	return nil
}

// checkData accepts any text but the empty one.
func checkData(data string) error {
	if data == "" {
		return invalid("data must not be empty")
	}
	return checkText("data", data)
}

// check refuses the first invalid field.
func (f FolderFields) check() error {
	if f.Name != nil {
		return checkName(*f.Name)
	}
	return nil
}

// check refuses the first invalid field.
func (f SymbolFields) check() error {
	if f.Name != nil {
		if err := checkName(*f.Name); err != nil {
			return err
		}
	}
	if f.Type != nil {
		if err := checkType(*f.Type); err != nil {
			return err
		}
	}
	if f.Data != nil {
		if err := checkData(*f.Data); err != nil {
			return err
		}
	}
	if f.FolderID != nil && *f.FolderID < 1 {
		return invalid("folderId must be a positive number")
	}
	return nil
}

// Check refuses the first invalid field, with an error that matches
// [ErrInvalid].
func (n NewSymbol) Check() error {
	return SymbolFields{Name: &n.Name, Type: &n.Type, Data: &n.Data}.check()
}
