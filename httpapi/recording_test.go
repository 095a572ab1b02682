package httpapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// exchange is a request and its response as a line of a recording, which the
// test of the API's description reads.
type exchange struct {
	Test      string // by whom it was sent
	Method    string
	Target    string // path without the prefix of the API, and query
	Header    http.Header
	Body      []byte
	Status    int
	GotHeader http.Header
	GotBody   []byte
}

// recording is the file for exchanges, nil unless a directory for it is named.
var recording = sync.OnceValues(func() (*os.File, error) {
	dir := os.Getenv("CANVASBACK_TEST_EXCHANGES")
	if dir == "" {
		return nil, nil
	}
	return os.Create(filepath.Join(dir, "exchanges.jsonl"))
})

// longestRecorded is how long the two bodies of an exchange may be together.
// Those of longer ones are of the same kind and take long to look at.
const longestRecorded = 256 << 10

// record writes an exchange to the recording, if there is to be one.
func (h *harness) record(target string, request *http.Request, body string, got response) {
	h.t.Helper()
	file, err := recording()
	if file == nil {
		if err != nil {
			h.t.Fatal(err)
		}
		return
	}
	if len(body)+len(got.body) > longestRecorded {
		return
	}
	line, err := json.Marshal(exchange{
		Test: h.t.Name(), Method: request.Method, Target: strings.TrimPrefix(target, h.options.Prefix),
		Header: request.Header, Body: []byte(body),
		Status: got.status, GotHeader: got.header, GotBody: got.body,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := file.Write(append(line, '\n')); err != nil { // one write, so that lines stay whole
		h.t.Fatal(err)
	}
}
