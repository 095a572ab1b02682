package httpapi

import (
	"sync"
	"time"
)

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

// download returns an endpoint that counts as a download of its client while it runs.
func download(next endpoint) endpoint {
	return func(c *call) error {
		streams, client := c.api.streams, c.client()
		if err := streams.start(client); err != nil {
			return err
		}
		defer streams.end(client)
		return next(c)
	}
}
