package fetch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"example.com/canvasback/exports"
)

// statusError is a response that is not a file.
type statusError struct {
	host       string
	status     int
	code       string        // of an object store, such as AccessDenied
	retryAfter time.Duration // zero if the origin sent none
}

func newStatusError(response *http.Response) *statusError {
	e := &statusError{host: response.Request.URL.Host, status: response.StatusCode}
	text := response.Header.Get("Retry-After") // RFC 9110, section 10.2.3
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		e.retryAfter = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		e.retryAfter = time.Until(date)
	}
	return e
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("unexpected status %d %s from %s", e.status, http.StatusText(e.status), e.host)
	if e.code != "" {
		text += ": " + e.code
	}
	return text
}

// Is makes a response of a missing file an [exports.ErrGone]. An object store also
// responds with 404 if a bucket or an access key is unknown.
func (e *statusError) Is(target error) bool {
	if target != exports.ErrGone || e.status != http.StatusNotFound && e.status != http.StatusGone {
		return false
	}
	switch e.code {
	case "", "NoSuchKey", "NoSuchVersion", "BlobNotFound":
		return true
	}
	return false
}

func isTransient(err error) bool {
	if errors.Is(err, exports.ErrForbidden) {
		return false
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status == http.StatusRequestTimeout || e.status == http.StatusTooManyRequests || e.status >= 500
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return !e.IsNotFound
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Op == "dial" || e.Op == "read" || e.Op == "write" // but not a TLS alert
	}
	_, reset := errors.AsType[http2StreamError](err)
	return reset || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// http2StreamError matches the stream error of net/http, which has no exported
// name but converts to any struct with the same fields.
type http2StreamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (http2StreamError) Error() string { return "HTTP/2 stream error" }
