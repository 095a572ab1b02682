package httpapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/matryer/is"
)

// exchange is a line of the recording that the tests of internal/contract read.
type exchange struct {
	Test      string // name of the test
	Method    string
	Target    string // path without prefix, and query
	Header    http.Header
	Body      []byte
	Status    int
	GotHeader http.Header
	GotBody   []byte
}

// recording is the file for exchanges, nil unless CANVASBACK_TEST_EXCHANGES names a
// directory.
var recording = sync.OnceValues(func() (*os.File, error) {
	dir := os.Getenv("CANVASBACK_TEST_EXCHANGES")
	if dir == "" {
		return nil, nil
	}
	return os.Create(filepath.Join(dir, "exchanges.jsonl"))
})

// maxRecorded is the maximum size of both bodies of a recorded exchange. Longer ones
// are slow to check.
const maxRecorded = 256 << 10

// record writes an exchange to the recording, if there is one.
func (h *harness) record(target string, request *http.Request, body string, got response) {
	h.t.Helper()
	is := is.New(h.t)
	file, err := recording()
	if file == nil {
		is.NoErr(err)
		return
	}
	if len(body)+len(got.body) > maxRecorded {
		return
	}
	line, err := json.Marshal(exchange{
		Test: h.t.Name(), Method: request.Method, Target: strings.TrimPrefix(target, h.options.Prefix),
		Header: request.Header, Body: []byte(body),
		Status: got.status, GotHeader: got.header, GotBody: got.body,
	})
	is.NoErr(err)
	_, err = file.Write(append(line, '\n')) // one write per line
	is.NoErr(err)
}
