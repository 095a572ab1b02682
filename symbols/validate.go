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

const maxMeta = 16 << 10 // bytes

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

func checkMeta(meta string) error {
	if len(meta) > maxMeta {
		return invalid(fmt.Sprintf("meta must have at most %d bytes", maxMeta))
	}
	return checkText("meta", meta)
}

func checkData(data string) error {
	if data == "" {
		return invalid("data must not be empty")
	}
	return checkText("data", data)
}
