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
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// exchange is a request and its response. The tests of package httpapi record
// exchanges as lines of JSON.
type exchange struct {
	Test      string // name of the test
	Method    string
	Target    string // path and query
	Header    http.Header
	Body      []byte
	Status    int
	GotHeader http.Header
	GotBody   []byte
}

func (e exchange) String() string {
	return fmt.Sprintf("%s: %s %.100s %.200q returned %d %.300q", e.Test, e.Method, e.Target, e.Body, e.Status, e.GotBody)
}

// check compares an exchange with the document.
type check struct {
	op       operation // zero if the document has none
	problems []string
}

func (c *check) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// check returns the check of an exchange.
func (d *document) check(e exchange) (c check) {
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
			c.add("preflight response has a body")
		}
	case methods == nil:
		c.response(e, http.StatusNotFound, d.noOperation("not_found"))
	case !known:
		c.response(e, http.StatusMethodNotAllowed, d.noOperation("method_not_allowed", "Allow"))
		allowed := strings.Split(e.GotHeader.Get("Allow"), ", ")
		if slices.Sort(allowed); !slices.Equal(allowed, allowedMethods(methods)) {
			c.add("Allow is %s, want %s", allowed, allowedMethods(methods))
		}
	default:
		c.op = op
		c.response(e, e.Status, op.response(e.Status))
		if e.Status < 400 {
			c.request(e, op, values, query)
		}
	}
	return c
}

// isPreflight reports whether e is a CORS preflight, which is part of the Fetch
// standard and not of the document.
func isPreflight(e exchange) bool {
	return e.Method == http.MethodOptions && e.Status == http.StatusNoContent &&
		e.Header.Get("Origin") != "" && e.Header.Get("Access-Control-Request-Method") != ""
}

// standardHeaders are not in the document: they belong to HTTP itself, as those
// that start with Access-Control- belong to the Fetch standard.
var standardHeaders = []string{"Content-Type", "Date", "Connection", "Transfer-Encoding", "Vary", "Content-Encoding"}

// response checks a response against the described one.
func (c *check) response(e exchange, status int, want *openapi3.Response) {
	if e.Status != status || want == nil {
		c.add("status %d is not in the document", e.Status)
		return
	}
	for name := range e.GotHeader {
		described := want.Headers[name] != nil || slices.Contains(standardHeaders, name) || strings.HasPrefix(name, "Access-Control-") ||
			name == "Referrer-Policy" && regexp.MustCompile(`/(image|changes)\?`).MatchString(e.Target) // described in words
		if !described {
			c.add("header %s is not in the document", name)
		}
	}
	for name, header := range want.Headers {
		c.header(name, header.Value, e.GotHeader.Values(name))
	}
	c.body(e, want)
}

func (c *check) header(name string, want *openapi3.Header, got []string) {
	switch {
	case len(got) > 1:
		c.add("header %s is repeated", name)
	case len(got) == 1:
		if err := validateText(want.Schema, got[0]); err != nil {
			c.add("header %s: %v", name, err)
		}
	case want.Required:
		c.add("header %s is missing", name)
	}
}

// validateText is validate for a value in a header, path or query.
func validateText(schema *openapi3.SchemaRef, text string) error {
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
	return validate(schema, value)
}

func (c *check) body(e exchange, want *openapi3.Response) {
	if want.Content == nil || e.Method == http.MethodHead {
		if len(e.GotBody) > 0 {
			c.add("unexpected body of %d bytes", len(e.GotBody))
		}
	}
	if want.Content == nil {
		if got := e.GotHeader.Get("Content-Type"); got != "" {
			c.add("Content-Type is %q without a body", got)
		}
		return
	}
	mediaType, _, err := mime.ParseMediaType(e.GotHeader.Get("Content-Type"))
	if err != nil {
		c.add("Content-Type %q: %v", e.GotHeader.Get("Content-Type"), err)
		return
	}
	described := mediaKey(want.Content, mediaType)
	if described != "application/json" && !strings.HasPrefix(described, "text/") && e.GotHeader.Get("Content-Disposition") == "" {
		c.add("binary response without a file name")
	}
	switch {
	case described == "":
		c.add("Content-Type %s is not in the document", mediaType)
	case e.Method == http.MethodHead:
	case described == "application/json":
		c.json(e, want)
	case described == "application/zip":
		if _, err := zip.NewReader(bytes.NewReader(e.GotBody), int64(len(e.GotBody))); err != nil {
			c.add("%v", err)
		}
	case strings.HasSuffix(mediaType, "json"):
		c.add("binary response with Content-Type %s", mediaType)
	}
}

// mediaKey returns the key of a media type in content, "" if there is none.
func mediaKey(content openapi3.Content, mediaType string) string {
	major, _, _ := strings.Cut(mediaType, "/")
	for _, key := range []string{mediaType, major + "/*", "*/*"} {
		if content[key] != nil {
			return key
		}
	}
	return ""
}

func (c *check) json(e exchange, want *openapi3.Response) {
	var value any
	if err := json.Unmarshal(e.GotBody, &value); err != nil {
		c.add("body: %v", err)
		return
	}
	if err := validate(want.Content["application/json"].Schema, value); err != nil {
		c.add("body: %v", err)
	}
	body, ok := value.(map[string]any)
	if !ok || e.Status < 400 {
		return
	}
	if code := fmt.Sprint(body["code"]); !slices.Contains(errorCodes(want), code) {
		c.add("code is %s, want one of %s", code, errorCodes(want))
	}
	if id := e.GotHeader.Get("X-Request-Id"); body["requestId"] != id {
		c.add("requestId is %v, but the header %s", body["requestId"], id)
	}
}

// request checks an accepted request against the described one.
func (c *check) request(e exchange, op operation, values map[string]string, rawQuery string) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		c.add("query: %v", err)
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
			if err := validateText(parameter.Schema, text); err != nil {
				c.add("parameter %s %q is accepted: %v", parameter.Name, text, err)
			}
		}
	}
	if op.RequestBody != nil {
		c.requestBody(e, op.RequestBody.Value)
	}
}

func (c *check) requestBody(e exchange, want *openapi3.RequestBody) {
	if len(e.Body) == 0 {
		if want.Required {
			c.add("request without a body is accepted")
		}
		return
	}
	if want.Content["*/*"] != nil {
		return
	}
	contentType := e.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		c.add("request with Content-Type %q is accepted: %v", contentType, err)
		return
	}
	if want.Content["application/json"] == nil {
		if mediaType != "" && want.Content[mediaType] == nil {
			c.add("request with Content-Type %q is accepted", contentType)
		}
		return
	}
	if mediaType != "" && mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		c.add("request with Content-Type %q is accepted", contentType)
	}
	var value any
	err = json.Unmarshal(e.Body, &value)
	if tooLarge := new(json.UnmarshalTypeError); errors.As(err, &tooLarge) {
		return // a number that Go cannot hold, in an unknown field
	}
	if err != nil {
		c.add("body is accepted: %v", err)
		return
	}
	if err := validate(want.Content["application/json"].Schema, value); err != nil {
		c.add("body is accepted: %v", err)
	}
}
