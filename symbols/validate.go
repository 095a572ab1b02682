package symbols

import (
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"
)

// Lengths in Unicode code points.
const (
	maxName = 255
	maxType = 255
)

// checkText rejects text that some databases cannot store: invalid UTF-8 and
// NUL.
func checkText(field, text string) error {
	if !utf8.ValidString(text) {
		return invalid(field + " must be valid UTF-8")
	}
	if strings.ContainsRune(text, 0) {
		return invalid(field + " must not contain a NUL character")
	}
	return nil
}

// checkName rejects names that are blank or too long.
func checkName(name string) error {
	if err := checkText("name", name); err != nil {
		return err
	}
	if strings.TrimSpace(name) == "" {
		return invalid("name must not be empty")
	}
	if utf8.RuneCountInString(name) > maxName {
		return invalid(fmt.Sprintf("name must have at most %d characters", maxName))
	}
	return nil
}

// checkType rejects everything but a media type with optional parameters (RFC
// 9110, section 8.3.1).
func checkType(text string) error {
	if err := checkText("type", text); err != nil {
		return err
	}
	if utf8.RuneCountInString(text) > maxType {
		return invalid(fmt.Sprintf("type must have at most %d characters", maxType))
	}
	if mediaType, _, err := mime.ParseMediaType(text); err != nil || !strings.Contains(mediaType, "/") {
		return invalid(`type must be a MIME type such as "image/svg+xml"`)
	}
	return nil
}

func checkData(data string) error {
	if data == "" {
		return invalid("data must not be empty")
	}
	return checkText("data", data)
}

// check returns an error for the first invalid field.
func (f FolderFields) check() error {
	if f.Name != nil {
		return checkName(*f.Name)
	}
	return nil
}

// check returns an error for the first invalid field.
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

// Check returns an error that matches [ErrInvalid] for the first invalid field.
func (n NewSymbol) Check() error {
	return SymbolFields{Name: &n.Name, Type: &n.Type, Data: &n.Data}.check()
}
