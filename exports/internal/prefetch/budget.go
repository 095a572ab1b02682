package prefetch

import (
	"context"
	"sync"
	"time"
)

// PrefixSize is how many bytes of a file are prefetched at most. A file of up
// to this size is complete before it is consumed, while there is memory.
const PrefixSize = 1 << 20

// smallPrefix is how many bytes of a file are prefetched while memory is scarce:
// enough to hide the latency of the upstream.
const smallPrefix = 64 << 10

// stallTime is how long a consumer may take for a file before its queue discards
// the files after it, if others need the memory.
const stallTime = 250 * time.Millisecond

// Budget bounds the memory for prefixes of all queues that share it. The last quarter of it
// is for small prefixes, so that stalled queues do not stop others. It is safe for
// concurrent use.
type Budget struct {
	max int // bytes

	mu      sync.Mutex
	left    int // bytes
	members map[*member]bool
	freed   chan struct{} // closed when memory becomes free
}

// NewBudget returns a Budget of the given number of bytes.
func NewBudget(bytes int) *Budget {
	return &Budget{max: bytes, left: bytes, members: make(map[*member]bool), freed: make(chan struct{})}
}

// member is what a [Budget] knows of a queue.
type member struct {
	*Budget             // its lock guards the fields
	consuming time.Time // since when the consumer has had a file; zero while it waits for one
	ready     []func()  // each discards a prefetched file, unless the consumer has received it
}

func (b *Budget) join() *member {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &member{Budget: b}
	b.members[m] = true
	return m
}

func (m *member) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, m)
}

// setConsuming records that the consumer has got a file, or waits for one if since is zero.
func (m *member) setConsuming(since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.consuming = since
}

func (m *member) addReady(discard func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = append(m.ready, discard)
}

// stalled returns a function that discards the file that the queue which has stalled longest
// has prefetched last, unless the consumer has received it, or nil. The caller holds the lock.
func (b *Budget) stalled() (discard func()) {
	var longest *member
	for m := range b.members {
		if len(m.ready) > 0 && !m.consuming.IsZero() && (longest == nil || m.consuming.Before(longest.consuming)) {
			longest = m
		}
	}
	if longest == nil || time.Since(longest.consuming) < stallTime {
		return nil
	}
	last := len(longest.ready) - 1
	discard, longest.ready = longest.ready[last], longest.ready[:last]
	return discard
}

// acquire returns memory for a small prefix. It takes that of stalled queues before it
// waits. Once the consumer waits for the file, it waits no longer: the allocation may
// be empty.
func (b *Budget) acquire(ctx context.Context, wanted <-chan struct{}) (*allocation, error) {
	a := &allocation{budget: b}
	for {
		b.mu.Lock()
		freed := b.freed
		b.mu.Unlock()
		if a.grow(smallPrefix) {
			return a, nil
		}
		select {
		case <-freed:
		case <-time.After(stallTime / 4): // others may have stalled
		case <-wanted:
			return a, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type allocation struct {
	budget *Budget
	bytes  int
}

// grow adds n bytes if they are left after stalled queues have discarded files.
func (a *allocation) grow(n int) bool {
	for {
		ok, discard := a.tryGrow(n)
		if discard == nil {
			return ok
		}
		discard()
	}
}

// tryGrow adds n bytes if they are left. Otherwise it returns what may free memory.
func (a *allocation) tryGrow(n int) (ok bool, discard func()) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left-n < b.max/4 {
		if discard := b.stalled(); discard != nil {
			return false, discard
		}
		if a.bytes+n > smallPrefix || b.left < n {
			return false, nil
		}
	}
	a.bytes += n
	b.left -= n
	return true, nil
}

// release frees all memory. It may be called more than once.
func (a *allocation) release() { a.shrink(0) }

func (a *allocation) shrink(n int) {
	if a.bytes == n {
		return
	}
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += a.bytes - n
	a.bytes = n
	close(b.freed)
	b.freed = make(chan struct{})
}

// prefixes are buffers for files that are large or of unknown size. The extra
// byte lets a read of a file of exactly PrefixSize bytes return io.EOF.
var prefixes = sync.Pool{New: func() any { return new([PrefixSize + 1]byte) }}

func prefixBuffer(n int) (buffer []byte, free func()) {
	if n < PrefixSize {
		return make([]byte, n), func() {}
	}
	pooled := prefixes.Get().(*[PrefixSize + 1]byte)
	return pooled[:], sync.OnceFunc(func() { prefixes.Put(pooled) })
}
