package httpapi

import (
	"context"
	"io"
	"net/http"
	"time"

	"example.com/canvasback/httpapi/internal/budget"
)

// bodyWindow is the time in which the client of a request must send as much of its
// body as BodyRate requires.
const bodyWindow = 10 * time.Second

// requestBody is a request body with a minimum rate, and with the memory that the
// request holds because of it. It keeps the ReadTimeout of the server.
type requestBody struct {
	io.ReadCloser
	source  io.Reader // of readAll and isEmpty; a timedBody unless Options.Authorize has replaced it
	api     *API
	w       *response
	r       *http.Request
	end     time.Time // of ReadTimeout; zero if there is none
	missing int64     // bytes until the next window begins
	read    int64     // bytes that Options.Authorize has read
	memory  budget.Hold[client]
}

// setBody limits the size, the rate and the memory of the body of r. The caller must
// release it.
func (a *API) setBody(w *response, r *http.Request, limit int64) *requestBody {
	b := &requestBody{
		ReadCloser: http.MaxBytesReader(w, r.Body, limit),
		api:        a, w: w, r: r,
	}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout > 0 {
		b.end = w.start.Add(server.ReadTimeout)
	}
	b.source, r.Body = timedBody{b}, b
	return b
}

// Read is for Options.Authorize, which may read the body and keep it.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := timedBody{b}.Read(p)
	b.read += int64(n)
	if err := b.reserve(2 * b.read); err != nil {
		return n, err
	}
	return n, err
}

// timedBody reads a body at BodyRate at least.
type timedBody struct{ *requestBody }

func (b timedBody) Read(p []byte) (int, error) {
	if b.missing <= 0 {
		b.startWindow()
	}
	n, err := b.ReadCloser.Read(p)
	b.missing -= int64(n)
	if err == io.EOF && b.r.ContentLength != 0 {
		http.NewResponseController(b.w).SetReadDeadline(time.Time{})
	}
	return n, err
}

// isEmpty reports whether the body ends before its first byte, which it discards.
func (b *requestBody) isEmpty() bool {
	if b.r.ContentLength > 0 {
		return false
	}
	n, err := b.source.Read(make([]byte, 1))
	return n == 0 && err == io.EOF
}

// startWindow sets the deadline for as much of the body as BodyRate requires.
func (b *requestBody) startWindow() {
	rate := b.api.options.BodyRate
	if rate < 0 || b.r.ContentLength == 0 {
		return
	}
	b.missing = rate * int64(bodyWindow/time.Second)
	deadline := time.Now().Add(bodyWindow)
	if !b.end.IsZero() && b.end.Before(deadline) {
		deadline = b.end
	}
	http.NewResponseController(b.w).SetReadDeadline(deadline)
}

// readAll returns the body. It reserves the memory for each part when the one before
// has arrived.
func (b *requestBody) readAll() ([]byte, error) {
	length := b.r.ContentLength + 1 // one byte of space for io.EOF
	if length <= 0 {
		length = 1 << 62 // unknown
	}
	body := make([]byte, 0, min(length, 4<<10))
	for {
		n, err := b.source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) < cap(body):
			continue
		}
		size := 2 * int64(cap(body))
		if length > int64(cap(body)) {
			size = min(size, length)
		}
		if err := b.reserve(int64(cap(body)) + size); err != nil {
			b.discard()
			return nil, err
		}
		body = append(make([]byte, 0, size), body...)
	}
}

// discard reads the rest of the body for one window. Most clients do not read a
// response before they have sent their request.
func (b *requestBody) discard() {
	http.NewResponseController(b.w).SetReadDeadline(time.Now().Add(bodyWindow))
	io.Copy(io.Discard, b.ReadCloser)
}

// reserve extends the memory of the request to size bytes while its body arrives. It
// waits as long as for a store, and not less if the client disconnects: see
// storeContext.
func (b *requestBody) reserve(size int64) error {
	if !b.holds(size) {
		return nil
	}
	err := b.memory.Grow(context.WithoutCancel(b.r.Context()), size)
	b.missing = 0 // the client could not send during the wait
	return err
}

// holds reports whether a request of size bytes holds memory. The server needs a little
// for each connection anyway.
func (b *requestBody) holds(size int64) bool {
	if size <= 4<<10 {
		return false
	}
	if b.memory == (budget.Hold[client]{}) {
		b.memory = b.api.memory.Hold(b.api.client(b.w, b.r))
	}
	return true
}

// reserve extends the memory of a request whose body has arrived to size bytes.
func reserve(r *http.Request, size int64) error {
	b := r.Body.(*requestBody)
	if !b.holds(size) {
		return nil
	}
	return b.memory.GrowLast(context.WithoutCancel(r.Context()), size)
}

// keepOnly reduces the memory of a request whose body has been processed to size bytes.
func keepOnly(r *http.Request, size int64) error {
	r.Body.(*requestBody).memory.Release()
	return reserve(r, size)
}
