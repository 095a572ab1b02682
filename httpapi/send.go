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

// writeBody is sendBody without counting.
func (a *API) writeBody(w http.ResponseWriter, r *http.Request, status int, contentType string, body ...[]byte) {
	length := size(body)
	setHeader(w, "Content-Type", contentType)
	setHeader(w, "Content-Length", strconv.Itoa(length))
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

// streamMemory is what a streamed response takes: a page of short symbols, encoded, and
// a compressor.
const streamMemory = 2 << 20

// countedWriter counts the memory of a streamed response. What is written at once is in
// memory twice: as it was read, and encoded.
type countedWriter struct {
	io.Writer
	ctx    context.Context
	memory budget.Hold[client]
}

// newCountedWriter returns a countedWriter for a response of which size bytes are in
// memory. The caller must release its memory.
func (a *API) newCountedWriter(w http.ResponseWriter, r *http.Request, size int) (*countedWriter, error) {
	c := &countedWriter{ctx: context.WithoutCancel(r.Context()), memory: a.sending.memory.Hold(a.client(recordOf(w), r))}
	return c, c.growTo(size)
}

func (c *countedWriter) Write(p []byte) (int, error) {
	if len(p) > streamMemory/4 {
		if err := c.growTo(2 * len(p)); err != nil {
			return 0, err
		}
	}
	return c.Writer.Write(p)
}

// growTo counts size bytes, if that is more than before.
func (c *countedWriter) growTo(size int) error {
	return c.memory.Grow(c.ctx, int64(streamMemory+size))
}

// streamJSON responds with the JSON that write writes, compressed on request. Of it,
// size bytes are in memory. The error of write aborts the response.
func (a *API) streamJSON(w http.ResponseWriter, r *http.Request, compressed bool, size int, write func(io.Writer) error) error {
	counted, err := a.newCountedWriter(w, r, size)
	if err != nil {
		return err
	}
	defer counted.memory.Release()
	w.Header().Set("Content-Type", "application/json")
	if compressed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := a.newStream(w, r)
	counted.Writer = out
	if compressed {
		err = compressTo(out, func(compressor io.Writer) error {
			counted.Writer = compressor
			return write(counted)
		})
	} else {
		err = write(counted)
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
