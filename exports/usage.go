package exports

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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

// usages counts what links serve, and writes it to the store behind them.
type usages struct {
	store    LinkStore
	now      func() time.Time
	requests int   // of a link at a time
	served   int64 // how many times its size

	writers atomic.Int32 // running calls of write

	mu    sync.Mutex
	links map[Digest]*linkUsage
}

type linkUsage struct {
	active   int
	admitted int64 // of the running responses
	unsaved  int64 // served, not yet in the store
	saving   bool  // write runs
}

// save starts a call of write if it is needed. The caller holds the lock.
func (u *usages) save(link Digest, usage *linkUsage) {
	if usage.unsaved > 0 && !usage.saving {
		usage.saving = true
		u.writers.Add(1)
		go u.write(link, usage)
	}
}

// write adds what a link has served to its stored usage, until all is saved. If the store
// fails, the rest counts in this process, and the next request tries again.
func (u *usages) write(link Digest, usage *linkUsage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for usage.unsaved > 0 {
		amount := usage.unsaved
		u.mu.Unlock()
		err := u.add(link, amount)
		u.mu.Lock()
		if err != nil {
			break
		}
		usage.unsaved -= amount
	}
	usage.saving = false
	u.release(link, usage)
	u.writers.Add(-1)
}

func (u *usages) add(link Digest, amount int64) (err error) {
	err = ErrUnavailable // if the store panics
	defer func() { recover() }()
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return u.store.AddServed(ctx, link, amount)
}

// flush waits until no write runs.
func (u *usages) flush(ctx context.Context) error {
	for u.writers.Load() > 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// release removes the usage of a link if nothing is left of it. The caller holds the
// lock.
func (u *usages) release(link Digest, usage *linkUsage) {
	if usage.active == 0 && usage.unsaved == 0 {
		delete(u.links, link)
	}
}

// usageOf returns what a response of n bytes adds to the usage of a link, rounded up. It
// is that of a complete download if the link is empty or of unknown size.
func usageOf(n, size int64) int64 {
	if size <= 0 || n >= size {
		return usageUnit
	}
	return int64(float64(n)/float64(size)*usageUnit) + 1
}

// admit begins a response with n bytes of a link that has size bytes; both are -1 if
// unknown. It returns a [LinkLimitError] if the link may not serve them now. Otherwise the
// caller must call done once, with the number of bytes that were sent.
func (u *usages) admit(link StoredLink, size, n int64) (done func(sent int64), err error) {
	amount := usageOf(n, size)
	u.mu.Lock()
	defer u.mu.Unlock()
	usage := cmp.Or(u.links[link.Digest], new(linkUsage))
	switch limit, used := u.served*usageUnit, link.Served+usage.unsaved; {
	case usage.active >= u.requests:
		return nil, &LinkLimitError{fmt.Sprintf("this link serves at most %d requests at a time", u.requests), time.Second}
	case used+usage.admitted >= limit:
		retry := link.ExpiresAt.Sub(u.now())
		if link.Served < limit {
			retry = time.Second // running responses may end early, and a write may have counted twice meanwhile
			u.save(link.Digest, usage)
		}
		return nil, &LinkLimitError{fmt.Sprintf("this link has delivered %d times its size", u.served), retry}
	}
	u.links[link.Digest] = usage
	usage.active++
	usage.admitted += amount
	return func(sent int64) {
		u.mu.Lock()
		defer u.mu.Unlock()
		usage.active--
		usage.admitted -= amount
		if sent > 0 {
			usage.unsaved += usageOf(sent, size)
		}
		u.save(link.Digest, usage)
		u.release(link.Digest, usage)
	}, nil
}
