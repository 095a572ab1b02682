// Package budget bounds the memory that requests make the process hold.
//
// A Budget is one number of bytes for all requests. Each class of requests leaves a part
// of it to smaller ones, so that none waits for larger ones. A client has half of it, and
// a little more for smaller requests, or a single request that needs more.
package budget

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrExhausted means that there is no memory for a request.
var ErrExhausted = errors.New("budget: too much memory in use")

// SmallSize is the maximum size in bytes of a small request.
const SmallSize = 64 << 10

// Budget is the memory for all requests. It is safe for concurrent use. A Client is
// what identifies a client.
type Budget[Client comparable] struct {
	size int64

	mu        sync.Mutex
	used      int64
	clients   map[Client]int64 // bytes of used
	arrived   int64            // number of reservations so far
	waiting   []*waiter[Client]
	exceeding *Reservation[Client] // the one with an excess, or nil
}

// New returns a Budget of size bytes.
func New[Client comparable](size int64) *Budget[Client] {
	return &Budget[Client]{size: max(size, 4*SmallSize), clients: make(map[Client]int64)}
}

// class returns the class of requests of size bytes, and how much of the budget all of
// them may use.
func (b *Budget[Client]) class(size int64) (class int, limit int64) {
	switch {
	case size <= SmallSize:
		return 0, b.size
	case size <= b.size/128:
		return 1, b.size / 8 * 7
	default:
		return 2, b.size / 4 * 3
	}
}

// Reservation is the memory of one request. It is not safe for concurrent use.
type Reservation[Client comparable] struct {
	budget *Budget[Client]
	client Client
	order  int64 // of arrival
	size   int64
	excess int64 // bytes beyond the budget
}

// waiter is a call of Grow that waits.
type waiter[Client comparable] struct {
	*Reservation[Client]
	wants   int64         // bytes
	granted chan struct{} // closed when it has them
}

// Reserve returns a Reservation of no memory. The caller must release it.
func (b *Budget[Client]) Reserve(client Client) Reservation[Client] {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived++
	return Reservation[Client]{budget: b, client: client, order: b.arrived}
}

// IsZero reports whether the Reservation is the zero value, which has no budget.
func (r *Reservation[Client]) IsZero() bool { return r.budget == nil }

// Size returns how many bytes the Reservation has.
func (r *Reservation[Client]) Size() int64 {
	if r.IsZero() {
		return 0
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	return r.total()
}

func (r *Reservation[Client]) total() int64 { return r.size + r.excess }

// Grow extends the Reservation to size bytes. It waits until ctx ends, and then returns
// [ErrExhausted]. Earlier requests come first. Requests that have memory already could
// wait for each other, so the first of them may exceed the budget, one at a time.
func (r *Reservation[Client]) Grow(ctx context.Context, size int64) error {
	w := r.request(size)
	if w == nil {
		return nil
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		return w.cancel()
	}
}

// TryGrow is Grow without waiting. It reports whether the Reservation has size bytes.
func (r *Reservation[Client]) TryGrow(size int64) bool {
	w := r.request(size)
	return w == nil || w.cancel() == nil
}

// request returns nil if the Reservation has size bytes, or else a waiter, which may
// have been granted already.
func (r *Reservation[Client]) request(size int64) *waiter[Client] {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case size <= r.total():
		return nil
	case r.excess > 0: // others wait for it to end
		r.excess = size - r.size
		return nil
	case len(b.waiting) == 0 && b.fits(r, size):
		b.extend(r, size)
		return nil
	}
	w := &waiter[Client]{r, size, make(chan struct{})}
	i, _ := slices.BinarySearchFunc(b.waiting, w, func(a, b *waiter[Client]) int { return cmp.Compare(a.order, b.order) })
	b.waiting = slices.Insert(b.waiting, i, w)
	b.grant()
	return w
}

// cancel ends the wait. It returns nil if the waiter was granted before.
func (w *waiter[Client]) cancel() error {
	b := w.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return nil
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.grant() // it may have been in the way of others
	return ErrExhausted
}

// fits reports whether a Reservation may have size bytes.
func (b *Budget[Client]) fits(r *Reservation[Client], size int64) bool {
	_, limit := b.class(size)
	size = min(size, limit) // all there is for a single request
	others := b.clients[r.client] - r.size
	return b.used-r.size+size <= limit && (others == 0 || others+size <= b.share(limit))
}

// share returns how much of the budget a client may use for a class with this limit: half, and
// more for smaller requests, so that they do not wait for its larger ones.
func (b *Budget[Client]) share(limit int64) int64 { return limit/2 + b.size/8 }

// extend extends a Reservation to size bytes, which fit.
func (b *Budget[Client]) extend(r *Reservation[Client], size int64) {
	_, limit := b.class(size)
	n := max(0, min(size, limit)-r.size)
	b.add(r.client, n)
	r.size += n
}

func (b *Budget[Client]) add(client Client, n int64) {
	b.used += n
	if b.clients[client] += n; b.clients[client] == 0 {
		delete(b.clients, client)
	}
}

// grant gives memory to those that wait, in order of arrival, until nobody can have more. A
// request that waits for others of its client is in nobody's way.
func (b *Budget[Client]) grant() {
	for waiting := -1; waiting != len(b.waiting); {
		waiting = len(b.waiting)
		if r := b.exceeding; r != nil && b.fits(r, r.total()) {
			b.extend(r, r.total())
			b.exceeding, r.excess = nil, 0
		}
		var full [3]bool // classes
		b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter[Client]) bool {
			class, limit := b.class(w.wants)
			switch {
			case !full[class] && b.fits(w.Reservation, w.wants):
				b.extend(w.Reservation, w.wants)
			case w.size > 0 && b.exceeding == nil:
				b.exceeding = w.Reservation
				w.excess = w.wants - w.size
			default:
				others := b.clients[w.client] - w.size
				full[class] = full[class] || others == 0 || others+w.wants <= b.share(limit)
				return false
			}
			close(w.granted)
			return true
		})
	}
}

// Shrink reduces the Reservation to size bytes. It may be called on the zero value.
func (r *Reservation[Client]) Shrink(size int64) {
	b := r.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.total() <= size {
		return
	}
	if r.excess > 0 {
		if r.excess = max(0, size-r.size); r.excess == 0 {
			b.exceeding = nil
		}
	}
	if r.size > size {
		b.add(r.client, size-r.size)
		r.size = size
	}
	b.grant()
}

// Exceeds reports whether the Reservation exceeds the budget: others may wait for it. It may
// be called on the zero value.
func (r *Reservation[Client]) Exceeds() bool {
	if r.IsZero() {
		return false
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	return r.excess > 0
}

// Release returns the memory. It may be called more than once, and on the zero value.
func (r *Reservation[Client]) Release() { r.Shrink(0) }
