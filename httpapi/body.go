package httpapi

import (
	"io"
	"net/http"
	"time"
)

// bodyIdleTimeout is how long the client of a request may send nothing of its body.
const bodyIdleTimeout = 10 * time.Second

// timedBody is a request body with an idle timeout. It keeps the ReadTimeout of the
// server.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	end     time.Time // zero if the server has no ReadTimeout
}

// setBody limits the size and the idle time of the body of r.
func setBody(w *response, r *http.Request, limit int64) {
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if r.ContentLength == 0 {
		return
	}
	body := &timedBody{ReadCloser: r.Body, control: http.NewResponseController(w)}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		body.end = w.start.Add(server.ReadTimeout)
	}
	r.Body = body
}

func (b *timedBody) Read(p []byte) (int, error) {
	deadline := time.Now().Add(bodyIdleTimeout)
	if !b.end.IsZero() && b.end.Before(deadline) {
		deadline = b.end
	}
	b.control.SetReadDeadline(deadline)
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
