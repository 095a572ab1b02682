package httpapi

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/httpapi/internal/stream"
)

// bodyWindow is the time in which the client of a request must send as much of its
// body as BodyRate requires.
const bodyWindow = 10 * time.Second

// requestBody is the body of a request, with a minimum rate. It keeps the ReadTimeout
// of the server.
type requestBody struct {
	call    *call     // nil behind middleware
	source  io.Reader // without its rate
	text    []byte    // what RequestResources has read, or nil
	end     time.Time // of ReadTimeout; zero if there is none
	missing int64     // bytes until the next window begins
}

// unreadable is the body of the request that Options.Authorize gets. It is not empty, so
// that a rule which reads the body denies instead of finding nothing.
type unreadable struct{}

func (unreadable) Read([]byte) (int, error) {
	return 0, errors.New("httpapi: only the endpoint reads the body; RequestResources returns what it names")
}

func (unreadable) Close() error { return nil }

// Read reads at BodyRate at least: each window has a deadline for as much as that requires.
func (b *requestBody) Read(p []byte) (int, error) {
	expected := b.call.r.ContentLength != 0 || b.call.r.ProtoMajor > 1 // over HTTP/2 an empty one may not end
	if rate := b.call.api.options.Limits.BodyRate; b.missing <= 0 && rate >= 0 && expected {
		b.missing = rate * int64(bodyWindow/time.Second)
		deadline := time.Now().Add(bodyWindow)
		if !b.end.IsZero() && b.end.Before(deadline) {
			deadline = b.end
		}
		b.control().SetReadDeadline(deadline)
	}
	n, err := b.source.Read(p)
	b.missing -= int64(n)
	if err == io.EOF && expected {
		b.control().SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *requestBody) control() *http.ResponseController {
	return http.NewResponseController(&b.call.w)
}

// isEmpty reports whether the body ends before its first byte, which it discards.
func (b *requestBody) isEmpty() bool {
	if b.call.r.ContentLength > 0 {
		return false
	}
	n, err := b.Read(make([]byte, 1))
	return n == 0 && err == io.EOF
}

// readAll returns the body. When a part has arrived, it reserves factor times the memory
// for the next.
func (b *requestBody) readAll(factor int64) ([]byte, error) {
	if b.text != nil {
		return b.text, nil
	}
	length := b.call.r.ContentLength + 1 // one byte of space for io.EOF
	if length <= 0 {
		length = 1 << 62 // unknown
	}
	body := make([]byte, 0, min(length, 4<<10))
	for {
		n, err := b.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) < cap(body):
			continue
		}
		size := min(4*int64(cap(body)), max(length, int64(cap(body))+512))
		if err := b.reserve(factor * size); err != nil {
			// Most clients do not read a response before they have sent their request.
			b.control().SetReadDeadline(time.Now().Add(bodyWindow))
			io.Copy(io.Discard, b.source)
			return nil, err
		}
		body = append(make([]byte, 0, size), body...)
	}
}

// reserve is [call.reserve] while the body arrives. It may wait until the bodies of
// others have arrived.
func (b *requestBody) reserve(size int64) error {
	b.control().SetReadDeadline(b.end) // over HTTP/2 it ends a body that nobody reads
	err := b.call.reserveWithin(size, b.call.api.options.Limits.IdleTimeout)
	b.missing = 0 // the client could not send during the wait
	return err
}

// readBody reads the body. It returns errType unless the media type is accepted or
// absent. An empty body has no type. The factor is that of readAll.
func (c *call) readBody(accepted func(mediaType string) bool, errType error, factor int64) ([]byte, error) {
	if err := checkBodyType(c.r.Header, accepted, errType); err != nil {
		if c.body.isEmpty() {
			return nil, c.checkAfterWait()
		}
		return nil, err
	}
	body, err := c.body.readAll(factor)
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return nil, errTooLarge
	case errors.Is(err, budget.ErrExhausted):
		return nil, err
	case err != nil:
		return nil, invalidRequest("body could not be read")
	case len(body) == 0 && c.r.ContentLength > 0: // no body would mean defaults
		return nil, errors.New("httpapi: middleware has read the body of the request")
	}
	return body, c.checkAfterWait()
}

func checkBodyType(header http.Header, accepted func(mediaType string) bool, errType error) error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return errContentEncoding
	}
	if types := header.Values("Content-Type"); len(types) > 0 {
		mediaType, _, err := mime.ParseMediaType(types[0])
		if len(types) > 1 || err != nil || !accepted(mediaType) {
			return errType
		}
	}
	return nil
}

// drain discards an unread body, so that the connection can be reused.
func (c *call) drain() { drain(&c.w, c.r, cmp.Or[io.Reader](c.body.source, c.r.Body)) }

// drain discards what is unread of the body of r. If the body is large or slow it sets
// Connection: close instead, because net/http would wait for the body before or after
// the response.
func drain(w http.ResponseWriter, r *http.Request, body io.Reader) {
	const maxSize, timeout = 256 << 10, time.Second
	if r.ContentLength == 0 || r.ProtoMajor > 1 {
		return
	}
	control := http.NewResponseController(w)
	timed := control.SetReadDeadline(time.Now().Add(timeout)) == nil
	if timed && r.ContentLength <= maxSize && r.Header.Get("Expect") == "" {
		if _, err := io.CopyN(io.Discard, body, maxSize); err == io.EOF {
			control.SetReadDeadline(time.Time{})
			return
		}
	}
	w.Header().Set("Connection", "close")
	if timed && (r.Close || r.Header.Get("Expect") != "") { // net/http would not wait
		// A body beyond a limit of net/http makes it wait before it closes the connection, which
		// would discard the response while the body arrives. The limit is 0, and the body another
		// one: to read that of the request would send 100 (Continue).
		http.MaxBytesReader(stream.Innermost(w), io.NopCloser(strings.NewReader(" ")), 0).Read(make([]byte, 1))
	}
}
