// Package budget bounds the memory that requests hold together.
package budget

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrExhausted means that there is no memory for a request.
var ErrExhausted = errors.New("budget: too much memory in use")

// SmallSize is the maximum size in bytes of a small request.
const SmallSize = 64 << 10

// Budget is the memory for all requests. An eighth of it is for small requests, so
// that they never wait for large ones. It is safe for concurrent use. A Client is what
// identifies a client.
type Budget[Client comparable] struct {
	small, large *part[Client]
	wait         time.Duration
}

// New returns a Budget of size bytes. A request waits for memory as long as wait.
func New[Client comparable](size int64, wait time.Duration) *Budget[Client] {
	small := max(size/8, SmallSize)
	return &Budget[Client]{newPart[Client](small), newPart[Client](max(size-small, SmallSize)), wait}
}

// part is memory that is given out in the order of the requests.
type part[Client comparable] struct {
	size   int64
	memory *semaphore.Weighted

	mu   sync.Mutex
	held map[Client]int64
}

func newPart[Client comparable](size int64) *part[Client] {
	return &part[Client]{size: size, memory: semaphore.NewWeighted(size), held: make(map[Client]int64)}
}

// acquire gives a request n bytes in addition to those that it holds.
func (p *part[Client]) acquire(ctx context.Context, client Client, n, holds int64) error {
	p.mu.Lock()
	others := p.held[client] - holds
	if others > 0 && others+holds+n > p.size/2 {
		p.mu.Unlock()
		return ErrExhausted
	}
	p.held[client] += n
	p.mu.Unlock()
	if p.memory.Acquire(ctx, n) != nil {
		p.credit(client, n)
		return ErrExhausted
	}
	return nil
}

func (p *part[Client]) release(client Client, n int64) {
	if n > 0 {
		p.memory.Release(n)
		p.credit(client, n)
	}
}

func (p *part[Client]) credit(client Client, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[client] -= n; p.held[client] == 0 {
		delete(p.held, client)
	}
}

// Hold is the memory of one request. It is not safe for concurrent use.
type Hold[Client comparable] struct {
	budget       *Budget[Client]
	client       Client
	small, large int64
}

// Hold returns a Hold without memory. The caller must release it.
func (b *Budget[Client]) Hold(client Client) Hold[Client] {
	return Hold[Client]{budget: b, client: client}
}

// Grow extends the Hold to size bytes, or to all memory for large requests if size is
// more. It waits for memory in the order of the calls. It returns [ErrExhausted] if
// there is none in time, or if the requests of the client would hold more than half of
// the memory. A single request may.
func (h *Hold[Client]) Grow(ctx context.Context, size int64) error {
	b := h.budget
	size = min(size, b.large.size)
	if size <= h.small+h.large {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	if size <= SmallSize {
		if err := b.small.acquire(ctx, h.client, size-h.small, h.small); err != nil {
			return err
		}
		h.small = size
		return nil
	}
	if err := b.large.acquire(ctx, h.client, size-h.large, h.large); err != nil {
		return err
	}
	h.large = size
	b.small.release(h.client, h.small)
	h.small = 0
	return nil
}

// Release returns the memory. It may be called more than once.
func (h *Hold[Client]) Release() {
	if h.budget == nil {
		return
	}
	h.budget.small.release(h.client, h.small)
	h.budget.large.release(h.client, h.large)
	h.small, h.large = 0, 0
}
