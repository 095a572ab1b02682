package httpapi

import (
	"io"
	"net/http"
)

// response notes what becomes of an answer.
type response struct {
	http.ResponseWriter
	status    int // 0 as long as the answer has not begun
	bytes     int64
	brokenOff bool
	route     string // its path in the table
	keyID     int64  // of the client key that was accepted
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 { // the others are not the answer yet
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

// ReadFrom implements [io.ReaderFrom], by which the server lets the kernel
// copy a file.
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
