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
	users int             // calls that have it or wait for it
	fatal int             // consecutive fatal errors
	ctx   context.Context // ends with the second one
	end   context.CancelCauseFunc
}

// Do calls f when no other call of the client runs, and returns its error, or the cause of
// the end of ctx if that is first. If fatal is not nil and reports two errors in a row,
// calls that wait return the second one instead of calling f.
func (t *Turns[Client]) Do(ctx context.Context, c Client, fatal func(error) bool, f func() error) error {
	own := t.join(c)
	defer t.leave(c, own)
	select {
	case own.taken <- struct{}{}:
		defer func() { <-own.taken }()
		if own.ctx.Err() != nil {
			return context.Cause(own.ctx)
		}
		err := f()
		if fatal == nil || !fatal(err) {
			own.fatal = 0
		} else if own.fatal++; own.fatal == 2 {
			own.end(err)
		}
		return err
	case <-own.ctx.Done():
		return context.Cause(own.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Turns[Client]) join(c Client) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.clients[c]
	if own == nil || own.ctx.Err() != nil {
		if t.clients == nil {
			t.clients = make(map[Client]*turn)
		}
		own = &turn{taken: make(chan struct{}, 1)}
		own.ctx, own.end = context.WithCancelCause(context.Background())
		t.clients[c] = own
	}
	own.users++
	return own
}

func (t *Turns[Client]) leave(c Client, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 && t.clients[c] == own {
		delete(t.clients, c)
	}
}
