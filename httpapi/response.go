package httpapi

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// response records the status and the size of a response.
type response struct {
	http.ResponseWriter
	status int   // 0 until the header is written
	bytes  int64 // of the body
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 { // 1xx are not final
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.begin()
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom implements [io.ReaderFrom], which lets the kernel copy a file.
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes += n
	return n, err
}

func (w *response) begin() { w.status = cmp.Or(w.status, http.StatusOK) }

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError is for [http.ResponseController]. Handlers of the application may assert
// http.Flusher and http.Hijacker.
func (w *response) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *response) Flush() { w.FlushError() }

func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

const headerRequestID = "X-Request-Id"

// setRequestID sets the request id of the response, also if Options.RequestID panics. It is
// the one that the application has set, else that of Options.RequestID, else the client's,
// else a new one. It replaces invalid ones, because the application may pass on what a client
// sent.
func (c *call) setRequestID() {
	c.givenID = c.requestID()
	defer func() {
		if !validRequestID(c.givenID) {
			c.givenID = c.r.Header.Get(headerRequestID)
		}
		if !validRequestID(c.givenID) {
			c.givenID = uuid.Must(uuid.NewV7()).String()
		}
		c.w.Header().Set(headerRequestID, c.givenID)
	}()
	if f := c.api.options.RequestID; f != nil && !validRequestID(c.givenID) {
		c.givenID = f(c.r)
	}
}

// validRequestID accepts 1 to 128 visible ASCII characters.
func validRequestID(id string) bool {
	isOther := func(c rune) bool { return c <= ' ' || c > '~' }
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, isOther)
}
