package httpapi

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
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
