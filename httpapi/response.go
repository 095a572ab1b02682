package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// response records a response for Observe.
type response struct {
	http.ResponseWriter
	start   time.Time
	status  int // 0 until the header is written
	bytes   int64
	aborted bool
	route   string // the path in the route table
	keyID   int64  // of the client key, if it is known
	actor   string // of an admin route
	code    string // of the error
	touched []Resource

	observed bool // by Observe

	values [8]string // of headers, see setHeader
	used   int

	credentials credentials
	outer       *authContext // if the request has passed an API before
	inherited   bool         // credentials are those of outer
}

// recordOf returns the response that w is, or wraps.
func recordOf(w http.ResponseWriter) *response {
	return w.(interface{ record() *response }).record()
}

func (w *response) record() *response { return w }

// setHeader sets a header, given in canonical form. It allocates less than
// [http.Header.Set].
func setHeader(w http.ResponseWriter, key, value string) {
	out := recordOf(w)
	if out.used == len(out.values) {
		w.Header()[key] = []string{value}
		return
	}
	i := out.used
	out.values[i] = value
	w.Header()[key] = out.values[i : i+1 : i+1]
	out.used++
}

// newResponse begins a request: it sets the request id of w and removes the keys
// from the header of r.
func (a *API) newResponse(w http.ResponseWriter, r *http.Request) *response {
	out := &response{ResponseWriter: w, start: time.Now(), observed: a.options.Observe != nil}
	a.setRequestID(out, r)
	out.outer, _ = r.Context().Value(ctxKey{}).(*authContext)
	out.credentials, out.inherited = takeCredentials(r.Header, out.outer)
	return out
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

func (w *response) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// appResponse is a response for the application's handlers, which may assert
// http.Flusher or http.Hijacker.
type appResponse struct{ *response }

func (w appResponse) Flush() { w.FlushError() }

func (w appResponse) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w appResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

const headerRequestID = "X-Request-Id"

// setRequestID sets the request id of the response: the one that the application
// has set, else that of Options.RequestID, else the client's, else a new one. It
// replaces invalid ones, because the application may pass on what a client sent.
func (a *API) setRequestID(w *response, r *http.Request) {
	if validRequestID(requestID(w)) {
		return
	}
	id := ""
	if a.options.RequestID != nil {
		id = a.options.RequestID(r)
	}
	if !validRequestID(id) {
		id = r.Header.Get(headerRequestID)
	}
	if !validRequestID(id) {
		id = uuid.Must(uuid.NewV7()).String()
	}
	setHeader(w, headerRequestID, id)
}

// validRequestID accepts 1 to 128 visible ASCII characters.
func validRequestID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

// requestID returns the request id of a response.
func requestID(w http.ResponseWriter) string { return w.Header().Get(headerRequestID) }
