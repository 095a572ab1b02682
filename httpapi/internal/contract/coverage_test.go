package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// coverage records the parts of the document that exchanges have used.
type coverage struct {
	doc      *document
	seen     map[string]bool
	shapes   map[string]map[string]bool // of the responses, by operation and status
	messages map[string]bool            // of all responses
}

func newCoverage(doc *document) *coverage {
	return &coverage{doc: doc, seen: make(map[string]bool), shapes: make(map[string]map[string]bool), messages: make(map[string]bool)}
}

// add records an exchange of an operation; without one, only its message.
func (c *coverage) add(op operation, e exchange) {
	var body any
	isJSON := json.Unmarshal(e.GotBody, &body) == nil
	c.messages[message(body)] = true
	if op.Operation == nil || e.Method != op.method {
		return
	}
	status := fmt.Sprintf("%s %d", op, e.Status)
	c.seen[status] = true
	for name := range e.GotHeader {
		c.seen[status+" header "+name] = true
	}
	if response := op.response(e.Status); response != nil {
		mediaType, _, _ := mime.ParseMediaType(e.GotHeader.Get("Content-Type"))
		c.seen[status+" type "+mediaKey(response.Content, mediaType)] = true
	}
	if e.Status < 300 {
		sent, _, _ := mime.ParseMediaType(e.Header.Get("Content-Type"))
		c.seen[op.OperationID+" takes "+sent] = true
		_, query, _ := strings.Cut(e.Target, "?")
		values, _ := url.ParseQuery(query)
		for name := range values {
			c.seen[op.OperationID+" takes "+name] = true
		}
		for name := range e.Header {
			c.seen[op.OperationID+" takes "+name] = true
		}
	}
	if isJSON {
		if c.shapes[status] == nil {
			c.shapes[status] = make(map[string]bool)
		}
		shape(c.shapes[status], "body", body)
	}
}

// missing lists the parts of the document that no exchange has used.
func (c *coverage) missing() (list []string) {
	miss := func(key string) {
		if !c.seen[key] {
			list = append(list, key+" is not covered")
		}
	}
	for _, op := range c.doc.operations {
		for _, status := range op.statuses() {
			key := op.OperationID + " " + status
			if miss(key); !c.seen[key] {
				continue
			}
			code, _ := strconv.Atoi(status)
			response := op.response(code)
			for _, name := range slices.Sorted(maps.Keys(response.Headers)) {
				miss(key + " header " + name)
			}
			for _, mediaType := range slices.Sorted(maps.Keys(response.Content)) {
				miss(key + " type " + mediaType)
			}
			list = append(list, c.unmatchedExamples(key, response.Content)...)
			if op.Responses.Value(status).Ref == "" {
				list = append(list, c.unmatchedMessages(key, response.Content)...)
			}
		}
		for _, parameter := range op.Parameters {
			switch parameter.Value.In {
			case openapi3.ParameterInQuery:
				miss(op.OperationID + " takes " + parameter.Value.Name)
			case openapi3.ParameterInHeader:
				miss(op.OperationID + " takes " + http.CanonicalHeaderKey(parameter.Value.Name))
			}
		}
		if op.RequestBody != nil && op.RequestBody.Value.Content["*/*"] == nil {
			for _, mediaType := range slices.Sorted(maps.Keys(op.RequestBody.Value.Content)) {
				miss(op.OperationID + " takes " + mediaType)
			}
		}
	}
	for name, response := range c.doc.Components.Responses {
		list = append(list, c.unmatchedMessages(name, response.Value.Content)...)
	}
	return list
}

// unmatchedMessages lists the examples whose message no response had.
func (c *coverage) unmatchedMessages(key string, content openapi3.Content) (list []string) {
	for name, value := range jsonExamples(content) {
		if text := message(value); !c.messages[text] {
			list = append(list, fmt.Sprintf("%s example %s: no response has the message %q", key, name, text))
		}
	}
	return list
}

// message returns the message of a body, "" if it has none.
func message(body any) string {
	object, _ := body.(map[string]any)
	text, _ := object["message"].(string)
	return text
}

// unmatchedExamples lists the examples with a part that no response had.
func (c *coverage) unmatchedExamples(key string, content openapi3.Content) (list []string) {
	for name, value := range jsonExamples(content) {
		parts := make(map[string]bool)
		shape(parts, "body", value)
		for part := range parts {
			if !c.shapes[key][part] {
				list = append(list, fmt.Sprintf("%s example %s: no response has %s", key, name, part))
			}
		}
	}
	return list
}

// shape adds the paths and types of a JSON value to parts.
func shape(parts map[string]bool, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		parts[path+" object"] = true
		for name, inner := range value {
			shape(parts, path+"."+name, inner)
		}
	case []any:
		parts[path+" array"] = true
		for _, inner := range value {
			shape(parts, path+"[]", inner)
		}
	default:
		parts[strings.TrimSpace(fmt.Sprintf("%s %T", path, value))] = true
	}
}
