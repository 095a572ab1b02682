package httpapi

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/httpapi/internal/stream"
)

// sendJSON is sendBody for JSON.
func (a *API) sendJSON(w http.ResponseWriter, r *http.Request, body ...[]byte) error {
	return a.sendBody(w, r, "application/json", body...)
}

// sendBody writes a response of any length, given in parts, which are read only. While
// a slow client receives a long one, it counts as memory of the client.
func (a *API) sendBody(w http.ResponseWriter, r *http.Request, contentType string, body ...[]byte) error {
	release, err := a.holdBody(w, r, body)
	if err != nil {
		return err
	}
	defer release()
	a.writeBody(w, r, http.StatusOK, contentType, body...)
	return nil
}

// writeBody is sendBody for the response to a change, which must not fail.
func (a *API) writeBody(w http.ResponseWriter, r *http.Request, status int, contentType string, body ...[]byte) {
	length := size(body)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(status)
	if length <= stream.ChunkSize {
		writeParts(w, body) // an error means that the client has disconnected
		return
	}
	out := a.newStream(w, r)
	if writeParts(out, body) == nil {
		out.Finish()
	}
}

func size(body [][]byte) int {
	length := 0
	for _, part := range body {
		length += len(part)
	}
	return length
}

func writeParts(w io.Writer, parts [][]byte) error {
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// streamMemory is what a streamed list takes: a page of symbols, encoded, and a
// compressor.
const streamMemory = 2 << 20

// streamJSON responds with the JSON that write writes, compressed on request. The error
// of write aborts the response.
func (a *API) streamJSON(w http.ResponseWriter, r *http.Request, compressed bool, write func(io.Writer) error) error {
	memory := a.sending.memory.Hold(a.client(recordOf(w), r))
	defer memory.Release()
	if err := memory.Grow(context.WithoutCancel(r.Context()), streamMemory); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if compressed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	var err error
	out := a.newStream(w, r)
	if compressed {
		err = compressTo(out, write)
	} else {
		err = write(out)
	}
	if err != nil {
		a.abort(w, r, err)
	}
	out.Finish()
	return nil
}

// sending counts the memory of long bodies that are being sent. A cached body that
// several requests send counts once.
type sending struct {
	memory *budget.Budget[client]

	mu     sync.Mutex
	bodies map[*byte]*sentBody // by their first byte
}

func newSending(size int64, wait time.Duration) *sending {
	return &sending{memory: budget.New[client](size, wait), bodies: make(map[*byte]*sentBody)}
}

type sentBody struct {
	memory   budget.Hold[client]
	requests int
}

// holdBody counts a long body until the caller calls release.
func (a *API) holdBody(w http.ResponseWriter, r *http.Request, body [][]byte) (release func(), err error) {
	length := size(body)
	if length <= budget.SmallSize {
		return func() {}, nil
	}
	s, first := a.sending, &body[0][0]
	s.mu.Lock()
	sent := s.bodies[first]
	if sent == nil {
		s.mu.Unlock()
		memory := s.memory.Hold(a.client(recordOf(w), r))
		if err := memory.Grow(context.WithoutCancel(r.Context()), int64(length)); err != nil {
			return nil, err
		}
		s.mu.Lock()
		if sent = s.bodies[first]; sent == nil {
			sent = &sentBody{memory: memory}
			s.bodies[first] = sent
		} else {
			memory.Release()
		}
	}
	sent.requests++
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if sent.requests--; sent.requests == 0 {
			delete(s.bodies, first)
			sent.memory.Release()
		}
	}, nil
}
