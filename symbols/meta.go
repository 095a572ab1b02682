package symbols

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
)

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
