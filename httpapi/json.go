package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"mime"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/httpapi/internal/bodies"
)

const decodeFactor = 3 // a body, its values and a response with them take as much memory each

// decode reads the request body as one JSON object. An empty body counts as {}.
func (c *call) decode(in any) error {
	body, err := c.readBody(isJSON, errMediaType, decodeFactor)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	_, parameters, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return errCharset // all JSON is UTF-8 (RFC 8259, section 8.1)
	}
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) > 0 && start[0] != '{' {
		return invalidRequest("body must be a JSON object")
	}
	const fieldSize = 80 // the decoder keeps their names to find repeated ones
	maxFields := min(1<<20, max(1<<16, c.api.options.Limits.Memory/(2*fieldSize)))
	fields := countFields(body)
	if fields > maxFields {
		return invalidRequest(fmt.Sprintf("body must have at most %d fields", maxFields))
	}
	if err := c.reserve(decodeFactor*int64(len(body)) + fieldSize*fields); err != nil {
		return err
	}
	if err := json.Unmarshal(body, in); err != nil {
		return invalidRequest(decodeErrorMessage(err))
	}
	return nil
}

// countFields returns how many fields the objects of a body have.
func countFields(body []byte) (count int64) {
	inText := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			inText = !inText
		case inText && c == '\\':
			i++
		case !inText && c == ':':
			count++
		}
	}
	return count
}

// isJSON reports whether a media type is application/json or ends in +json (RFC
// 6839, section 3.1).
func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.Contains(mediaType, "/") && strings.HasSuffix(mediaType, "+json")
}

// decodeErrorMessage returns the message of a decoding error. It begins with the
// name of the field.
func decodeErrorMessage(err error) string {
	if syntax := new(jsontext.SyntacticError); errors.As(err, &syntax) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fieldName(syntax.JSONPointer) + " appears more than once"
		}
		return fmt.Sprintf("body is not valid JSON: at byte %d", syntax.ByteOffset)
	}
	if semantic := new(json.SemanticError); errors.As(err, &semantic) && semantic.GoType != nil {
		return fieldName(semantic.JSONPointer) + " must be " + jsonTypeName(semantic.GoType)
	}
	return "body is not valid JSON"
}

// fieldName formats a JSON pointer like items[3].sourceFileUrl.
func fieldName(pointer jsontext.Pointer) string {
	var name strings.Builder
	for token := range pointer.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			name.WriteString("[" + token + "]")
			continue
		}
		if name.Len() > 0 {
			name.WriteByte('.')
		}
		name.WriteString(token)
	}
	if name.Len() > 40 { // not a field of the API; it could be a key, and this is logged
		return "a field"
	}
	return cmp.Or(name.String(), "body")
}

// jsonTypeName returns the JSON type that t is decoded from.
func jsonTypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// orNull returns a value that is encoded as null unless ok.
func orNull[T any](value T, ok bool) *T {
	if !ok {
		return nil
	}
	return &value
}

// optional is a field of a JSON object that may be absent. A null is an error
// unless T is a pointer.
type optional[T any] struct {
	value T
	set   bool
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom]. It is not called for an
// absent field.
func (o *optional[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	o.set = true
	if t := reflect.TypeFor[T](); dec.PeekKind() == 'n' && t.Kind() != reflect.Pointer {
		return &json.SemanticError{JSONPointer: dec.StackPointer(), GoType: t}
	}
	return json.UnmarshalDecode(dec, &o.value)
}

// pointer returns the value, or nil if the field is absent.
func (o *optional[T]) pointer() *T {
	if !o.set {
		return nil
	}
	return &o.value
}

// list returns the value as a list, which is empty if the field is absent.
func (o *optional[T]) list() []T {
	if !o.set {
		return nil
	}
	return []T{o.value}
}

// parseGiven returns what parse makes of the value of a field: nil if the field is absent,
// and the zero value for null.
func parseGiven[In, Out any](field optional[*In], parse func(In) (Out, error)) (*Out, error) {
	switch {
	case !field.set:
		return nil, nil
	case field.value == nil:
		return new(Out), nil
	}
	out, err := parse(*field.value)
	return &out, err
}

// decodeList decodes a JSON array of at most most elements, and one more if it is longer:
// short elements would take many times the memory of the body. A null is an error unless T
// decodes itself.
func decodeList[T any](dec *jsontext.Decoder, most int) (list []T, err error) {
	if dec.PeekKind() != '[' {
		return nil, &json.SemanticError{JSONPointer: dec.StackPointer(), GoType: reflect.TypeFor[[]T]()}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	takesNull := reflect.TypeFor[*T]().Implements(reflect.TypeFor[json.UnmarshalerFrom]())
	list = []T{}
	for dec.PeekKind() != ']' && err == nil {
		if len(list) > most {
			err = dec.SkipValue()
			continue
		}
		if dec.PeekKind() == 'n' && !takesNull { // json would take it as zero
			dec.SkipValue()
			return nil, &json.SemanticError{JSONPointer: dec.StackPointer(), GoType: reflect.TypeFor[T]()}
		}
		list = append(list, *new(T))
		err = json.UnmarshalDecode(dec, &list[len(list)-1])
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	return list, err
}

// limited is a JSON array, of which no field may have more than 1,000 elements.
type limited[T any] []T

type (
	texts = limited[string]
	ids   = limited[int64]
)

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (l *limited[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) (err error) {
	*l, err = decodeList[T](dec, 1000)
	return err
}

// formatTime formats a time as RFC 3339 in UTC with milliseconds.
func formatTime(t time.Time) string { return string(bodies.AppendTime(nil, t)) }

// appendOptionalTime appends a time as JSON: null if it is zero.
func appendOptionalTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return append(bodies.AppendTime(append(dst, '"'), t), '"')
}

// rfc3339 is the grammar of RFC 3339, section 5.6. time.Parse alone accepts an hour
// of one digit, a decimal comma, and an offset of 24 hours.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseTime parses RFC 3339 with any offset, or a plain date as midnight UTC.
func parseTime(field, text string) (time.Time, error) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil && rfc3339.MatchString(text) {
		at, err = time.Parse(time.RFC3339, strings.ToUpper(text))
	}
	if err != nil || at.IsZero() { // the zero time means none
		return time.Time{}, invalidRequest(field + ` must be a time such as "2026-12-31T23:59:59Z" or a date such as "2026-12-31"`)
	}
	return at, nil
}
