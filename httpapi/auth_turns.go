package httpapi

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
)

// turns is a lock for comparisons. The next turn is that of the client IP with the
// fewest turns before, and of these the last: neither many wrong keys of a few client
// IPs nor one of each of many delay a right key by more than a comparison.
type turns struct {
	seed    maphash.Seed
	mu      sync.Mutex
	held    bool
	waiting []*turn        // in order of arrival
	counts  map[uint64]int // of turns, by hash of the client IP, since its last right key
}

type turn struct {
	before int
	come   chan struct{} // closed when the turn has come
}

func newTurns() *turns { return &turns{seed: maphash.MakeSeed(), counts: make(map[uint64]int)} }

// acquire waits for a turn of the client IP, or returns the error of ctx.
func (t *turns) acquire(ctx context.Context, ip string) error {
	hash := maphash.String(t.seed, ip)
	t.mu.Lock()
	if len(t.counts) >= maxClientIPs {
		clear(t.counts)
	}
	own := &turn{t.counts[hash], make(chan struct{})}
	t.counts[hash]++
	if !t.held {
		t.held = true
		t.mu.Unlock()
		return nil
	}
	t.waiting = append(t.waiting, own)
	t.mu.Unlock()
	select {
	case <-own.come:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, own)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // its turn has come in the meantime
		t.release()
	}
	return ctx.Err()
}

// reset forgets the turns of a client IP that has sent a right key.
func (t *turns) reset(ip string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.counts, maphash.String(t.seed, ip))
}

func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := -1
	for i, waiting := range t.waiting {
		if next < 0 || waiting.before <= t.waiting[next].before {
			next = i
		}
	}
	if t.held = next >= 0; t.held {
		close(t.waiting[next].come)
		t.waiting = slices.Delete(t.waiting, next, next+1)
	}
}
