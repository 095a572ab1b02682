package symbols

import (
	"bytes"
	"fmt"
	"mime"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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

// checkLabel rejects text that is blank or has more than most characters.
func checkLabel(field, text string, most int) error {
	if err := checkText(field, text); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(text) == "":
		return invalid(field + " must not be empty")
	case utf8.RuneCountInString(text) > most:
		return invalid(fmt.Sprintf("%s must have at most %d characters", field, most))
	}
	return nil
}

func checkName(name string) error { return checkLabel("name", name, maxName) }

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

func checkFolderID(id int64) error {
	if id < 1 {
		return invalid("folderId must be a positive number")
	}
	return nil
}

// checkIDs returns an error unless there are 1 to 1,000 different ids.
func checkIDs(ids []int64) error {
	const most = 1000
	if len(ids) < 1 || len(ids) > most {
		return invalid(fmt.Sprintf("ids must be 1 to %d", most))
	}
	seen := make(map[int64]bool, len(ids))
	for i, id := range ids {
		if id < 1 {
			return invalid(fmt.Sprintf("ids[%d] must be a positive number", i))
		}
		if seen[id] {
			return invalid(fmt.Sprintf("ids[%d] must not be repeated", i))
		}
		seen[id] = true
	}
	return nil
}

// checkGiven checks a field unless value is nil.
func checkGiven[T any](value *T, check func(T) error) error {
	if value == nil {
		return nil
	}
	return check(*value)
}

var escapedNUL = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*\\u0000`)

// ParseMeta returns a JSON object as the Meta of a [Symbol]: without white space
// between its tokens. It has at most 16 KiB, and neither duplicate fields nor a NUL.
// Otherwise the error matches [ErrInvalid].
func ParseMeta(text []byte) (string, error) {
	const maxSize = 16 << 10
	if len(text) > maxSize {
		return "", invalid(fmt.Sprintf("meta must have at most %d bytes", maxSize))
	}
	value := jsontext.Value(bytes.Clone(text))
	if value.Kind() != '{' || !value.IsValid() {
		return "", invalid("meta must be a JSON object without duplicate fields")
	}
	if escapedNUL.Match(text) {
		return "", invalid("meta must not contain a NUL character")
	}
	err := value.Compact()
	return string(value), err
}

// checkMeta is ParseMeta for what is stored as it is.
func checkMeta(meta string) error {
	if meta == "" {
		return nil
	}
	_, err := ParseMeta([]byte(meta))
	return err
}
