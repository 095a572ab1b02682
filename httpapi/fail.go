package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/auth"
	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/symbols/bundle"
)

// errorBody is the JSON body of every error response.
type errorBody struct {
	Message   string        `json:"message"`
	Code      string        `json:"code"`
	RequestID string        `json:"requestId"`
	Skipped   []skippedItem `json:"skipped,omitempty"`
	Rejected  []fileNote    `json:"rejected,omitempty"`
}

// fail writes the response to an error. The cause of the error is logged only.
func (c *call) fail(err error) {
	c.drain()
	c.touchItems()
	c.memory.Release()
	defer c.memory.Release() // of the text
	out := lookupError(err)
	c.code = out.code
	switch {
	case err == errPanic: // logged with its stack
	case c.disconnected(), out.status < http.StatusInternalServerError:
		c.logFailure(slog.LevelDebug, "request failed", out.status, "error", err)
	default:
		c.failed(out.status, "request failed", err)
	}
	if out.status == http.StatusTooManyRequests || errors.Is(err, budget.ErrExhausted) {
		c.slowDown(out.retryAfter)
	}

	header := c.w.Header()
	// The endpoint may have set these for its own response.
	header.Set("Cache-Control", "no-store")
	for _, name := range []string{"Content-Disposition", "Content-Encoding", "Content-Security-Policy", "Etag", "Last-Modified", "Link"} {
		header.Del(name)
	}
	if out.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", challenge(out.err))
	}
	if out.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(out.retryAfter.Seconds()))))
	}
	body := errorBody{Message: out.message, Code: out.code, RequestID: c.requestID()}
	if batch, ok := errors.AsType[*exports.BatchError](err); ok {
		body.Skipped = skippedItems(batch.Skipped)
	}
	if rejected, ok := errors.AsType[*bundle.RejectedError](err); ok {
		body.Rejected = fileNotes(rejected.Files)
	}
	text := marshal(body)
	if c.count(int64(len(text))) != nil {
		body.Skipped, body.Rejected = nil, nil // there is no memory for them
		text = marshal(body)
	}
	c.write("application/json", out.status, text)
}

// challenge returns the WWW-Authenticate of a request rejected with err. The login
// of an application has no authentication scheme.
func challenge(err error) string {
	switch err {
	case errAdminLogin:
		return "Application"
	case auth.ErrAdminKeyMissing, auth.ErrAdminKeyWrong:
		return `ApiKey header="` + strings.ToLower(headerAdminKey) + `"`
	}
	return `ApiKey header="` + strings.ToLower(headerAPIKey) + `"`
}

// failed records a failure of the API for Observe, or logs it without one.
func (c *call) failed(status int, message string, err error) {
	c.failure = err.Error()
	if batch, ok := errors.AsType[*exports.BatchError](err); ok {
		if count, first := summarize(batch.Skipped); count > 0 {
			c.failure += fmt.Sprintf("; %d files skipped: %s", count, strings.Join(first, ", "))
		}
	}
	if c.api.options.Observe == nil {
		c.logFailure(failureLevel(status), message, status, "error", c.failure)
	}
}

// abort aborts a response that has begun and cannot be completed. It does not
// return.
func (c *call) abort(err error) {
	op, ok := errors.AsType[*net.OpError](err) // net/http cancels the context a little after a reset
	reset := ok && !op.Timeout() && op.Source != nil && op.Source == c.r.Context().Value(http.LocalAddrContextKey)
	if !reset && !c.disconnected() {
		c.failed(http.StatusOK, "response aborted", err)
	}
	panic(http.ErrAbortHandler)
}

// slowDown delays the response to a client that sends more requests instead of waiting, or
// closes its connection if too many responses are delayed.
func (c *call) slowDown(retryAfter time.Duration) {
	const patience, maxDelay = 3, 5 * time.Second
	if c.api.rejections.add(c.client()) <= patience {
		return
	}
	select {
	case c.api.rejections.parked <- struct{}{}:
		defer func() { <-c.api.rejections.parked }()
	default:
		c.w.Header().Set("Connection", "close")
		return
	}
	select {
	case <-time.After(min(retryAfter, maxDelay)):
	case <-c.r.Context().Done():
	}
}

// rejections counts the requests of each client that were rejected within a second.
type rejections struct {
	parked chan struct{} // held by each response that is delayed

	mu     sync.Mutex
	second int64 // of all counts
	counts map[client]int
}

// add returns how often a client has been rejected within this second.
func (r *rejections) add(c client) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if second := time.Now().Unix(); second != r.second {
		r.second, r.counts = second, make(map[client]int)
	}
	r.counts[c]++
	return r.counts[c]
}
