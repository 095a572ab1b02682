package bundle

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseMeta returns a JSON object as the Meta of a [symbols.Symbol]: without white space
// between its tokens. It has at most 16 KiB, and neither duplicate fields nor a NUL.
// Otherwise the error matches [ErrInvalid].
func ParseMeta(text []byte) (string, error) {
	const maxSize = 16 << 10
	if len(text) > maxSize {
		return "", invalid(fmt.Sprintf("meta must have at most %d bytes", maxSize))
	}
	tokens := jsontext.NewDecoder(bytes.NewReader(text))
	isObject := tokens.PeekKind() == '{'
	for {
		token, err := tokens.ReadToken()
		switch {
		case err == io.EOF && isObject:
			value := jsontext.Value(bytes.Clone(text))
			err := value.Compact()
			return string(value), err
		case err != nil:
			return "", invalid("meta must be a JSON object without duplicate fields")
		case token.Kind() == '"' && strings.ContainsRune(token.String(), 0):
			return "", invalid("meta must not contain a NUL character")
		}
	}
}
