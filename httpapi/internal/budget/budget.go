// Package budget bounds the memory that requests hold together.
package budget

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrExhausted means that there is no memory for a request.
var ErrExhausted = errors.New("budget: too much memory in use")

// SmallSize is the maximum size in bytes of a small request.
const SmallSize = 64 << 10

// Budget is the memory for all requests. An eighth of it is for small requests, and an
// eighth for those of up to 1/128 of it, so that neither wait for larger ones. It is
// safe for concurrent use. A Client is what identifies a client.
type Budget[Client comparable] struct {
	parts  []*part[Client] // by maximum size
	wait   time.Duration
	excess chan struct{} // has a value while a request exceeds the budget
}

// New returns a Budget of size bytes. A request waits for memory as long as wait.
func New[Client comparable](size int64, wait time.Duration) *Budget[Client] {
	eighth := max(size/8, SmallSize)
	return &Budget[Client]{[]*part[Client]{
		newPart[Client](eighth, SmallSize),
		newPart[Client](eighth, eighth/16),
		newPart[Client](max(size-2*eighth, SmallSize), math.MaxInt64),
	}, wait, make(chan struct{}, 1)}
}

// part is memory that is given out in the order of the requests.
type part[Client comparable] struct {
	size       int64
	maxRequest int64 // larger requests use another part
	memory     *semaphore.Weighted

	mu   sync.Mutex
	held map[Client]int64
}

func newPart[Client comparable](size, maxRequest int64) *part[Client] {
	return &part[Client]{size: size, maxRequest: maxRequest, memory: semaphore.NewWeighted(size), held: make(map[Client]int64)}
}

// acquire gives a request n bytes in addition to those that it holds.
func (p *part[Client]) acquire(ctx context.Context, client Client, n, holds int64) error {
	for !p.addTo(client, n, holds) {
		select {
		case <-time.After(100 * time.Millisecond): // few clients ever wait for themselves
		case <-ctx.Done():
			return ErrExhausted
		}
	}
	if p.memory.Acquire(ctx, n) != nil {
		p.removeFrom(client, n)
		return ErrExhausted
	}
	return nil
}

// tryAcquire is acquire without waiting.
func (p *part[Client]) tryAcquire(client Client, n, holds int64) bool {
	if !p.addTo(client, n, holds) {
		return false
	}
	if !p.memory.TryAcquire(n) {
		p.removeFrom(client, n)
		return false
	}
	return true
}

// addTo adds n bytes to those of a client, and reports whether that is within its share.
func (p *part[Client]) addTo(client Client, n, holds int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := p.held[client] - holds
	if others > 0 && others+holds+n > p.size/2 {
		return false
	}
	p.held[client] += n
	return true
}

func (p *part[Client]) release(client Client, n int64) {
	p.memory.Release(n)
	p.removeFrom(client, n)
}

func (p *part[Client]) removeFrom(client Client, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[client] -= n; p.held[client] == 0 {
		delete(p.held, client)
	}
}

// Reservation is the memory of one request. It is not safe for concurrent use.
type Reservation[Client comparable] struct {
	budget *Budget[Client]
	client Client
	part   *part[Client] // nil if size is zero
	size   int64
	excess int64 // what the request holds instead of size, if more
}

// Reserve returns a Reservation of no memory. The caller must release it.
func (b *Budget[Client]) Reserve(client Client) Reservation[Client] {
	return Reservation[Client]{budget: b, client: client}
}

// Grow extends the Reservation to size bytes, or to all memory for large requests if size is
// more. It waits for memory in the order of the calls, and for other requests of the
// client that hold half of the memory; a single one may hold more. It returns
// [ErrExhausted] if there is none in time.
func (h *Reservation[Client]) Grow(ctx context.Context, size int64) error {
	part := h.budget.partFor(size)
	size = min(size, part.size)
	if size <= h.size {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.budget.wait)
	defer cancel()
	n, holds := size, int64(0)
	if part == h.part {
		n, holds = size-h.size, h.size
	}
	if err := part.acquire(ctx, h.client, n, holds); err != nil {
		return err
	}
	h.set(part, size)
	return nil
}

// TryGrow is Grow without waiting. It reports whether the Reservation has size bytes now.
func (h *Reservation[Client]) TryGrow(size int64) bool {
	part := h.budget.partFor(size)
	size = min(size, part.size)
	n, holds := size, int64(0)
	if part == h.part {
		n, holds = size-h.size, h.size
	}
	if n > 0 && !part.tryAcquire(h.client, n, holds) {
		return false
	}
	h.set(part, size)
	return true
}

// GrowLast is Grow for a request that has all it needs to end soon. One such request at
// a time may exceed the budget, and others wait for it. Without that, requests that
// hold memory would wait for each other.
func (h *Reservation[Client]) GrowLast(ctx context.Context, size int64) error {
	part := h.budget.partFor(size)
	needs := min(size, part.size)
	n, holds := needs, int64(0)
	if part == h.part {
		n, holds = needs-h.size, h.size
	}
	if h.size == 0 || n <= 0 {
		return h.Grow(ctx, size)
	}
	if part.tryAcquire(h.client, n, holds) {
		h.set(part, needs)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.budget.wait)
	defer cancel()
	select {
	case h.budget.excess <- struct{}{}:
		h.excess = size
		return nil
	case <-ctx.Done():
		return ErrExhausted
	}
}

// set makes the Reservation one of size bytes, which are acquired.
func (h *Reservation[Client]) set(part *part[Client], size int64) {
	if part != h.part {
		h.Release()
	}
	h.part, h.size = part, size
}

// partFor returns the memory for a request of size bytes.
func (b *Budget[Client]) partFor(size int64) *part[Client] {
	for _, p := range b.parts {
		if size <= p.maxRequest {
			return p
		}
	}
	panic("unreachable")
}

// Size returns how many bytes the Reservation has.
func (h *Reservation[Client]) Size() int64 { return max(h.size, h.excess) }

// Release returns the memory. It may be called more than once.
func (h *Reservation[Client]) Release() {
	if h.part != nil {
		h.part.release(h.client, h.size)
		h.part, h.size = nil, 0
	}
	if h.excess > 0 {
		<-h.budget.excess
		h.excess = 0
	}
}
