package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"example.com/canvasback/exports"
)

// try begins until it succeeds, another try cannot help, or all are used up.
func (o *Opener) try(ctx context.Context, address *url.URL, header http.Header, accept acceptor) (*stream, error) {
	for n := 1; ; n++ {
		s, err := o.begin(ctx, address, header, accept)
		if err == nil || ctx.Err() != nil || n >= o.tries || !transient(err) {
			return s, err
		}
		o.again(ctx, address, err)
		if err := o.pause(ctx, n, err); err != nil {
			return nil, err
		}
	}
}

// statusError is an answer that is not a file.
type statusError struct {
	host   string
	status int
	after  time.Duration // to wait, as the origin says
}

func newStatusError(response *http.Response) *statusError {
	e := &statusError{host: response.Request.URL.Host, status: response.StatusCode}
	text := response.Header.Get("Retry-After") // RFC 9110, section 10.2.3
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		e.after = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(text); err == nil {
		e.after = time.Until(date)
	}
	return e
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.host, e.status, http.StatusText(e.status))
}

// transient reports whether another try may end otherwise.
func transient(err error) bool {
	if errors.Is(err, exports.ErrForbidden) {
		return false
	}
	if answer, ok := errors.AsType[*statusError](err); ok {
		return answer.status == http.StatusRequestTimeout ||
			answer.status == http.StatusTooManyRequests || answer.status >= 500
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return !name.IsNotFound
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "dial" || op.Op == "read" || op.Op == "write" // and not an alert of TLS
	}
	_, reset := errors.AsType[streamReset](err)
	return reset || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// streamReset is how an HTTP/2 origin breaks off. The error of net/http has no
// exported name, but turns into any struct with its fields.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (r streamReset) Error() string { return "stream reset" }

// pause waits before the try that follows n others and the error of the last:
// at random, so that many who failed together do not come back together, and
// at least as long as the origin asks, within reason.
func (o *Opener) pause(ctx context.Context, n int, err error) error {
	wait := rand.N(min(o.firstPause<<min(n-1, 10), maxPause))
	if answer, ok := errors.AsType[*statusError](err); ok {
		wait = min(max(wait, answer.after), maxPause)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// again logs that an address is asked for once more.
func (o *Opener) again(ctx context.Context, address *url.URL, err error) {
	o.log.LogAttrs(ctx, slog.LevelDebug, "asking for an export once more",
		slog.String("url", exports.RedactURL(address.String())), slog.Any("cause", err))
}
