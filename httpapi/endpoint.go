package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// endpoint answers a request that has passed its guard, or returns the error
// with which it is to be answered.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// none is the input of an endpoint that reads nothing but the path.
type none struct{}

// reply makes an endpoint of a function from the id in the path, zero if there
// is none, and the body to the answer.
func reply[In, Out any](a *API, status int, f func(ctx context.Context, id int64, in In) (Out, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r)
		if err != nil {
			return err
		}
		var in In
		switch any(in).(type) {
		case none, ifMatch:
			drain(w, r)
		default:
			if err := decode(r, &in); err != nil {
				return err
			}
		}
		if conditional, ok := any(&in).(interface{ readHeader(http.Header) }); ok {
			conditional.readHeader(r.Header)
		}
		ctx, cancel := a.storeContext(r)
		defer cancel()
		out, err := f(ctx, id, in)
		if err != nil {
			return err
		}
		if out, ok := any(out).(record); ok {
			return a.sendRecord(w, r, status, out)
		}
		return encode(w, status, out)
	}
}

// storeContext is what a store is called with. It ends with the time allowed
// and not with the client: a client may close its side of the connection as
// soon as it has sent its request, and a driver may give up a connection to the
// database for each call that is broken off.
func (a *API) storeContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), a.options.StoreTimeout)
}

// pathID reads the id in the path of a route that has one.
func pathID(r *http.Request) (int64, error) {
	if !strings.Contains(r.Pattern, "{id}") {
		return 0, nil
	}
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	// ParseInt reads signs and leading zeros too, which would give one
	// record several addresses.
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != text {
		return 0, invalidRequest("id must be a positive whole number")
	}
	return id, nil
}

// decode reads the body of a request as one JSON object; an empty body counts
// as {}.
func decode(r *http.Request, in any) error {
	body, err := readBody(r, isJSON, errMediaType)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) > 0 && start[0] != '{' {
		return invalidRequest("body must be a JSON object")
	}
	if err := json.Unmarshal(body, in); err != nil {
		return invalidRequest(describe(err))
	}
	return nil
}

// readBody reads the body of a request whose media type is accepted, or that
// has none.
func readBody(r *http.Request, accepted func(mediaType string) bool, refusal error) ([]byte, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, errContentEncoding
	}
	if types := r.Header.Values("Content-Type"); len(types) > 0 {
		mediaType, _, err := mime.ParseMediaType(types[0])
		if len(types) > 1 || err != nil || !accepted(mediaType) {
			return nil, refusal
		}
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, invalidRequest("body could not be read")
	}
	return body, nil
}

// isJSON reports whether a media type is application/json or ends in +json
// (RFC 6839, section 3.1).
func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.Contains(mediaType, "/") && strings.HasSuffix(mediaType, "+json")
}

// describe tells the author of a body what is wrong with it, the field first.
func describe(err error) string {
	if syntax := new(jsontext.SyntacticError); errors.As(err, &syntax) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fieldName(syntax.JSONPointer) + " appears more than once"
		}
		return fmt.Sprintf("body is not valid JSON: at byte %d", syntax.ByteOffset)
	}
	if semantic := new(json.SemanticError); errors.As(err, &semantic) && semantic.GoType != nil {
		return fieldName(semantic.JSONPointer) + " must be " + kindName(semantic.GoType)
	}
	return "body is not valid JSON"
}

// fieldName writes a JSON pointer as people write it: items[3].sourceFileUrl.
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
	switch text := name.String(); {
	case text == "":
		return "body"
	case len(text) > 40: // no field of ours; it could be a key, and this is logged
		return "a field"
	default:
		return text
	}
}

// kindName names the JSON type that a Go type is read from.
func kindName(t reflect.Type) string {
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

// encode writes an answer as JSON. Text that is not UTF-8 has its broken bytes
// replaced: no answer may fail for them.
func encode(w http.ResponseWriter, status int, out any) error {
	body, err := json.Marshal(out, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // a client that has left needs no answer
	return nil
}
