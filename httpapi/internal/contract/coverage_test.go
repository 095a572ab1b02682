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

// sight notes what of the document has been met.
type sight struct {
	doc      *document
	seen     map[string]bool
	shapes   map[string]map[string]bool // of the answers, by operation and status
	messages map[string]bool            // of all answers
}

func newSight(doc *document) *sight {
	return &sight{doc: doc, seen: make(map[string]bool), shapes: make(map[string]map[string]bool), messages: make(map[string]bool)}
}

// note notes an exchange of an operation. Of one without only the message is
// of interest.
func (s *sight) note(op operation, e exchange) {
	var body any
	isJSON := json.Unmarshal(e.GotBody, &body) == nil
	s.messages[message(body)] = true
	if op.Operation == nil || e.Method != op.method {
		return
	}
	status := fmt.Sprintf("%s %d", op, e.Status)
	s.seen[status] = true
	for name := range e.GotHeader {
		s.seen[status+" header "+name] = true
	}
	if response := op.response(e.Status); response != nil {
		mediaType, _, _ := mime.ParseMediaType(e.GotHeader.Get("Content-Type"))
		s.seen[status+" type "+mediaKey(response.Content, mediaType)] = true
	}
	if e.Status < 300 {
		sent, _, _ := mime.ParseMediaType(e.Header.Get("Content-Type"))
		s.seen[op.OperationID+" takes "+sent] = true
		_, query, _ := strings.Cut(e.Target, "?")
		values, _ := url.ParseQuery(query)
		for name := range values {
			s.seen[op.OperationID+" takes "+name] = true
		}
		for name := range e.Header {
			s.seen[op.OperationID+" takes "+name] = true
		}
	}
	if isJSON {
		if s.shapes[status] == nil {
			s.shapes[status] = make(map[string]bool)
		}
		shape(s.shapes[status], "body", body)
	}
}

// missing lists what of the document has not been met.
func (s *sight) missing() (list []string) {
	miss := func(key string) {
		if !s.seen[key] {
			list = append(list, key+" was not met")
		}
	}
	for _, op := range s.doc.operations {
		for _, status := range op.statuses() {
			key := op.OperationID + " " + status
			if miss(key); !s.seen[key] {
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
			list = append(list, s.strangeExamples(key, response.Content)...)
			if op.Responses.Value(status).Ref == "" {
				list = append(list, s.unheardMessages(key, response.Content)...)
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
		if op.RequestBody != nil {
			for _, mediaType := range slices.Sorted(maps.Keys(op.RequestBody.Value.Content)) {
				miss(op.OperationID + " takes " + mediaType)
			}
		}
	}
	for name, response := range s.doc.Components.Responses {
		list = append(list, s.unheardMessages(name, response.Value.Content)...)
	}
	return list
}

// unheardMessages lists the examples with a message that no answer had.
func (s *sight) unheardMessages(key string, content openapi3.Content) (list []string) {
	for name, value := range jsonExamples(content) {
		if text := message(value); !s.messages[text] {
			list = append(list, fmt.Sprintf("%s example %s: no answer has the message %q", key, name, text))
		}
	}
	return list
}

// message is the message of a body, empty if it has none.
func message(body any) string {
	object, _ := body.(map[string]any)
	text, _ := object["message"].(string)
	return text
}

// strangeExamples lists the examples that have a part that no real answer had.
func (s *sight) strangeExamples(key string, content openapi3.Content) (list []string) {
	for name, value := range jsonExamples(content) {
		parts := make(map[string]bool)
		shape(parts, "body", value)
		for part := range parts {
			if !s.shapes[key][part] {
				list = append(list, fmt.Sprintf("%s example %s: no answer has %s", key, name, part))
			}
		}
	}
	return list
}

// shape notes the parts of a JSON value with their types.
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
