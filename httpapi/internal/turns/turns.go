// Package turns makes the calls of one client wait for each other, so that they leave
// processors and database connections to others.
package turns

import (
	"context"
	"sync"
)

// Turns runs one call of each client at a time. The zero value is ready to use. It is safe
// for concurrent use.
type Turns[Client comparable] struct {
	mu      sync.Mutex
	clients map[Client]*turn
}

type turn struct {
	taken chan struct{}
	users int // calls that have it or wait for it
}

// Do calls f when no other call of the client runs, and returns its error, or the cause of
// the end of ctx if that is first.
func (t *Turns[Client]) Do(ctx context.Context, c Client, f func() error) error {
	own := t.join(c)
	defer t.leave(c)
	select {
	case own.taken <- struct{}{}:
		defer func() { <-own.taken }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Turns[Client]) join(c Client) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients == nil {
		t.clients = make(map[Client]*turn)
	}
	if t.clients[c] == nil {
		t.clients[c] = &turn{taken: make(chan struct{}, 1)}
	}
	t.clients[c].users++
	return t.clients[c]
}

func (t *Turns[Client]) leave(c Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients[c].users--; t.clients[c].users == 0 {
		delete(t.clients, c)
	}
}
