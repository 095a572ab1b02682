package contract

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// exchange is a request and its answer. The tests of package httpapi write
// them as lines of JSON.
type exchange struct {
	Test      string // by whom it was sent
	Method    string
	Target    string // path and query
	Header    http.Header
	Body      []byte
	Status    int
	GotHeader http.Header
	GotBody   []byte
}

func (e exchange) String() string {
	return fmt.Sprintf("%s: %s %.100s %.200q is answered %d %.300q", e.Test, e.Method, e.Target, e.Body, e.Status, e.GotBody)
}

// verdict is what the document says about an exchange.
type verdict struct {
	op       operation // zero if the document has none for it
	problems []string
}

func (v *verdict) add(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// judge compares an exchange with the document.
func (d *document) judge(e exchange) (v verdict) {
	path, query, _ := strings.Cut(e.Target, "?")
	methods, values := d.find(path)
	method := e.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op, known := methods[method]
	switch {
	case isPreflight(e):
		if len(e.GotBody) > 0 {
			v.add("a preflight is answered with a body")
		}
	case methods == nil:
		v.answer(e, http.StatusNotFound, d.notFound())
	case !known:
		v.answer(e, http.StatusMethodNotAllowed, d.methodNotAllowed())
		allowed := strings.Split(e.GotHeader.Get("Allow"), ", ")
		if slices.Sort(allowed); !slices.Equal(allowed, allow(methods)) {
			v.add("Allow is %s, want %s", allowed, allow(methods))
		}
	default:
		v.op = op
		v.answer(e, e.Status, op.response(e.Status))
		if e.Status < 400 {
			v.request(e, op, values, query)
		}
	}
	return v
}

// isPreflight reports whether a browser's question about other origins has
// been answered, which the document leaves to the Fetch standard.
func isPreflight(e exchange) bool {
	return e.Method == http.MethodOptions && e.Status == http.StatusNoContent &&
		e.Header.Get("Origin") != "" && e.Header.Get("Access-Control-Request-Method") != ""
}

// transport are the headers that belong to HTTP itself or, with those that
// begin with Access-Control-, to the Fetch standard.
var transport = []string{"Content-Type", "Date", "Connection", "Transfer-Encoding", "Vary"}

// answer compares an answer with the one described.
func (v *verdict) answer(e exchange, status int, want *openapi3.Response) {
	if e.Status != status || want == nil {
		v.add("status %d is not in the document", e.Status)
		return
	}
	for name := range e.GotHeader {
		described := want.Headers[name] != nil || slices.Contains(transport, name) || strings.HasPrefix(name, "Access-Control-")
		if !described {
			v.add("header %s is not in the document", name)
		}
	}
	for name, header := range want.Headers {
		v.header(name, header.Value, e.GotHeader.Values(name))
	}
	v.body(e, want)
}

func (v *verdict) header(name string, want *openapi3.Header, got []string) {
	switch {
	case len(got) > 1:
		v.add("header %s is there more than once", name)
	case len(got) == 1:
		if err := validText(want.Schema, got[0]); err != nil {
			v.add("header %s: %v", name, err)
		}
	case want.Required:
		v.add("header %s is missing", name)
	}
}

// validText is valid for a value that is sent as text.
func validText(schema *openapi3.SchemaRef, text string) error {
	var value any = text
	var err error
	switch {
	case schema.Value.Type.Is("integer"):
		value, err = strconv.ParseInt(text, 10, 64)
	case schema.Value.Type.Is("boolean"):
		value, err = strconv.ParseBool(text)
	}
	if err != nil {
		return err
	}
	return valid(schema, value)
}

func (v *verdict) body(e exchange, want *openapi3.Response) {
	if want.Content == nil || e.Method == http.MethodHead {
		if len(e.GotBody) > 0 {
			v.add("there is a body of %d bytes", len(e.GotBody))
		}
	}
	if want.Content == nil {
		if got := e.GotHeader.Get("Content-Type"); got != "" {
			v.add("Content-Type is %q without a body", got)
		}
		return
	}
	mediaType, _, err := mime.ParseMediaType(e.GotHeader.Get("Content-Type"))
	if err != nil {
		v.add("Content-Type %q: %v", e.GotHeader.Get("Content-Type"), err)
		return
	}
	described := mediaKey(want.Content, mediaType)
	if described != "application/json" && e.GotHeader.Get("Content-Disposition") == "" {
		v.add("a binary answer has no file name")
	}
	switch {
	case described == "":
		v.add("Content-Type %s is not in the document", mediaType)
	case e.Method == http.MethodHead:
	case described == "application/json":
		v.json(e, want)
	case described == "application/zip":
		if _, err := zip.NewReader(bytes.NewReader(e.GotBody), int64(len(e.GotBody))); err != nil {
			v.add("%v", err)
		}
	case strings.HasSuffix(mediaType, "json"):
		v.add("a binary answer has the Content-Type %s", mediaType)
	}
}

// mediaKey is the name under which the document has a media type, empty if it
// has none.
func mediaKey(content openapi3.Content, mediaType string) string {
	for _, key := range []string{mediaType, "*/*"} {
		if content[key] != nil {
			return key
		}
	}
	return ""
}

func (v *verdict) json(e exchange, want *openapi3.Response) {
	var value any
	if err := json.Unmarshal(e.GotBody, &value); err != nil {
		v.add("body: %v", err)
		return
	}
	if err := valid(want.Content["application/json"].Schema, value); err != nil {
		v.add("body: %v", err)
	}
	body, ok := value.(map[string]any)
	if !ok || e.Status < 400 {
		return
	}
	if code := fmt.Sprint(body["code"]); !slices.Contains(errorCodes(want), code) {
		v.add("code is %s, want one of %s", code, errorCodes(want))
	}
	if id := e.GotHeader.Get("X-Request-Id"); body["requestId"] != id {
		v.add("requestId is %v, but the header %s", body["requestId"], id)
	}
}

// request compares a request that was accepted with the one described.
func (v *verdict) request(e exchange, op operation, values map[string]string, rawQuery string) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		v.add("query: %v", err)
	}
	for _, ref := range op.Parameters {
		parameter := ref.Value
		var given []string
		switch parameter.In {
		case openapi3.ParameterInPath:
			given = []string{values[parameter.Name]}
		case openapi3.ParameterInQuery:
			given = query[parameter.Name]
		case openapi3.ParameterInHeader:
			given = e.Header.Values(parameter.Name)
		}
		for _, text := range given {
			if text == "" && parameter.AllowEmptyValue {
				continue
			}
			if err := validText(parameter.Schema, text); err != nil {
				v.add("parameter %s %q is accepted: %v", parameter.Name, text, err)
			}
		}
	}
	if op.RequestBody != nil {
		v.requestBody(e, op.RequestBody.Value)
	}
}

func (v *verdict) requestBody(e exchange, want *openapi3.RequestBody) {
	if len(e.Body) == 0 {
		if want.Required {
			v.add("a request without its body is accepted")
		}
		return
	}
	contentType := e.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		v.add("Content-Type %q of a request is accepted: %v", contentType, err)
		return
	}
	if want.Content["application/json"] == nil {
		if mediaType != "" && want.Content[mediaType] == nil {
			v.add("Content-Type %q of a request is accepted", contentType)
		}
		return
	}
	if mediaType != "" && mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		v.add("Content-Type %q of a request is accepted", contentType)
	}
	var value any
	err = json.Unmarshal(e.Body, &value)
	if tooLarge := new(json.UnmarshalTypeError); errors.As(err, &tooLarge) {
		return // a number that Go cannot hold, in a field that nobody knows
	}
	if err != nil {
		v.add("a body is accepted: %v", err)
		return
	}
	if err := valid(want.Content["application/json"].Schema, value); err != nil {
		v.add("a body is accepted: %v", err)
	}
}
