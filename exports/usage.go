package exports

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.com/canvasback/exports/internal/writebehind"
)

// LinkLimitError means that a link serves too many requests at a time, or has
// served too much.
type LinkLimitError struct {
	Reason     string // may be shown to clients
	RetryAfter time.Duration
}

func (e *LinkLimitError) Error() string { return "exports: " + e.Reason }

// usageUnit is the usage of one complete download. A link that is renewed keeps its
// usage although its size changes.
const usageUnit = 1_000_000

// linkUsage is how this process uses a link.
type linkUsage struct {
	active   int
	reserved int64 // of the running responses
	unsaved  int64 // served, not yet in the store
}

// usages counts what links serve, and writes it to the store behind them.
type usages struct {
	store LinkStore
	loop  *writebehind.Loop

	mu    sync.Mutex
	links map[Digest]*linkUsage
}

func newUsages(store LinkStore) *usages {
	u := &usages{store: store, links: make(map[Digest]*linkUsage)}
	u.loop = writebehind.New(u.nextWrite)
	return u
}

func (u *usages) nextWrite() (write func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for link, usage := range u.links {
		if amount := usage.unsaved; amount > 0 {
			return func() { u.write(link, usage, amount) }
		}
	}
	return nil
}

// write adds an amount to the stored usage. If the store fails, it is lost.
func (u *usages) write(link Digest, usage *linkUsage, amount int64) {
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		usage.unsaved -= amount
		u.release(link, usage)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	u.store.AddServed(ctx, link, amount)
}

// release removes the usage of a link if nothing is left of it. The caller holds the
// lock.
func (u *usages) release(link Digest, usage *linkUsage) {
	if usage.active == 0 && usage.unsaved == 0 {
		delete(u.links, link)
	}
}

// usage returns what a response of n bytes adds to the usage of the link, rounded
// up.
func (l *Link) usage(n int64) int64 {
	if l.Size <= 0 || n >= l.Size {
		return usageUnit
	}
	return max(1, int64(float64(n)/float64(l.Size)*usageUnit)+1)
}

// reserve begins a response with n bytes of the link, -1 for all of them. It
// returns a [LinkLimitError] if the link may not serve them now. Otherwise the
// caller must call done once, with the number of bytes that were sent.
func (l *Link) reserve(n int64) (done func(sent int64), err error) {
	s, u := l.service, l.service.usages
	if n < 0 {
		n = max(l.Size, 0)
	}
	reserved := l.usage(n)
	u.mu.Lock()
	defer u.mu.Unlock()
	usage := u.links[l.stored.Digest]
	if usage == nil {
		usage = new(linkUsage)
	}
	switch limit, used := s.linkServed*usageUnit, l.stored.Served+usage.unsaved; {
	case usage.active >= s.linkRequests:
		return nil, &LinkLimitError{fmt.Sprintf("this link serves at most %d requests at a time", s.linkRequests), time.Second}
	case used+usage.reserved >= limit:
		retry := l.ExpiresAt.Sub(s.now())
		if used < limit {
			retry = time.Second // the running responses may end early
		}
		return nil, &LinkLimitError{fmt.Sprintf("this link has delivered %d times its size", s.linkServed), retry}
	}
	u.links[l.stored.Digest] = usage
	usage.active++
	usage.reserved += reserved
	return func(sent int64) {
		u.mu.Lock()
		defer u.mu.Unlock()
		usage.active--
		usage.reserved -= reserved
		if sent > 0 {
			usage.unsaved += min(reserved, l.usage(sent))
			u.loop.Start()
		}
		u.release(l.stored.Digest, usage)
	}, nil
}
