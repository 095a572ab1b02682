package httpapi

import (
	"net/http"
	"sync"
	"time"
)

// client identifies whom to charge for a request: its client key, or its client IP if
// it has none.
type client struct {
	keyID int64
	ip    string
}

func (a *API) client(w *response, r *http.Request) client {
	if w.keyID != 0 {
		return client{keyID: w.keyID}
	}
	return client{ip: a.limiter.clientIP(r)}
}

// streamLimiter limits how many downloads a client has at a time. Each holds a
// connection to an origin, and as much memory as its slowest reader needs.
type streamLimiter struct {
	limit int

	mu      sync.Mutex
	running map[client]int
}

// start counts a download, until the caller calls end.
func (l *streamLimiter) start(c client) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit >= 0 && l.running[c] >= l.limit {
		return &permitError{DeniedError{"too many downloads of this client at a time", time.Second}, nil}
	}
	l.running[c]++
	return nil
}

func (l *streamLimiter) end(c client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[c]--; l.running[c] == 0 {
		delete(l.running, c)
	}
}

// stream returns an endpoint that counts as a download of its client while it runs.
func (a *API) stream(next endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		c := a.client(w.(*response), r)
		if err := a.streams.start(c); err != nil {
			return err
		}
		defer a.streams.end(c)
		return next(w, r)
	}
}
