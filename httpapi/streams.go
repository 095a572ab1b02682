package httpapi

import (
	"sync"
	"time"
)

// streamLimiter limits how many long responses of a kind a client, and all clients, may
// have at a time. A download holds a connection to an origin, and as much memory as its
// slowest reader needs.
type streamLimiter struct {
	limit int    // of a client; no limit if negative
	total int    // of all; no limit if 0 or less
	kind  string // in the message

	mu      sync.Mutex
	running map[streamClient]int
	count   int // of all
}

func newStreamLimiter(limit, total int, kind string) *streamLimiter {
	return &streamLimiter{limit: limit, total: total, kind: kind, running: make(map[streamClient]int)}
}

// streamClient is a client, or one of its page tokens, or all of them.
type streamClient struct {
	client
	token string // the id, or allTokens; empty: none
}

const (
	allTokens = "all"

	// maxTokenClients is as how many clients all tokens of a key count: visitors of one
	// page must not starve each other.
	maxTokenClients = 16
)

// start counts a response, until the caller calls end.
func (l *streamLimiter) start(c streamClient) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := streamClient{c.client, allTokens}
	own := l.limit >= 0 && (l.running[c] >= l.limit || c.token != "" && l.running[all]/maxTokenClients >= l.limit)
	if own || l.total > 0 && l.count >= l.total {
		return &DeniedError{Message: "too many " + l.kind + " of this client at a time", RetryAfter: time.Second}
	}
	l.count++
	l.running[c]++
	if c.token != "" {
		l.running[all]++
	}
	return nil
}

func (l *streamLimiter) end(c streamClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	list := []streamClient{c}
	if c.token != "" {
		list = append(list, streamClient{c.client, allTokens})
	}
	for _, c := range list {
		if l.running[c]--; l.running[c] == 0 {
			delete(l.running, c)
		}
	}
}

// all returns how many responses are counted.
func (l *streamLimiter) all() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// download returns an endpoint that counts as a download of its client while it runs.
func download(next endpoint) endpoint {
	return func(c *call) error {
		streams, client := c.api.streams, streamClient{c.client(), c.tokenID}
		if err := streams.start(client); err != nil {
			return err
		}
		defer streams.end(client)
		return next(c)
	}
}
