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

// Budget bounds the memory for prefixes of all queues that share it. A quarter of it
// is for small prefixes, so that stalled queues do not stop others. It is safe for
// concurrent use.
type Budget struct {
	mu      sync.Mutex
	large   int // bytes left for prefixes of up to PrefixSize
	small   int // bytes left for prefixes of up to smallPrefix
	members map[*member]bool
	freed   chan struct{} // closed when memory becomes free
	stats   Stats         // without UsedBytes
}

// NewBudget returns a Budget of the given number of bytes.
func NewBudget(bytes int) *Budget {
	return &Budget{
		large: bytes - bytes/4, small: bytes / 4, members: make(map[*member]bool), freed: make(chan struct{}),
		stats: Stats{MaxBytes: bytes},
	}
}

// Stats counts the files of all queues that share a [Budget].
type Stats struct {
	Ready  uint64 // were prefetched, or had failed, when the consumer needed them
	Waited uint64 // were not

	UsedBytes, MaxBytes int // memory for prefixes
}

// Stats returns the current statistics.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := b.stats
	stats.UsedBytes = stats.MaxBytes - b.large - b.small
	return stats
}

// count counts a file.
func (b *Budget) count(ready bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ready {
		b.stats.Ready++
	} else {
		b.stats.Waited++
	}
}

// member is what a [Budget] knows of a queue. It is guarded by Budget.mu.
type member struct {
	consuming time.Time      // since when the consumer has had a file; zero while it waits for one
	ready     map[any]func() // discard prefetched files, by task
}

// open adds a queue.
func (b *Budget) open() *member {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &member{ready: make(map[any]func())}
	b.members[m] = true
	return m
}

// close removes a queue.
func (b *Budget) close(m *member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.members, m)
}

// setConsuming records that the consumer of a queue has got a file, or waits for one.
func (b *Budget) setConsuming(m *member, consuming bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.consuming = time.Time{}
	if consuming {
		m.consuming = time.Now()
	}
}

// setReady adds a function that discards the file of a task, or removes it if nil.
func (b *Budget) setReady(m *member, task any, discard func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if discard == nil {
		delete(m.ready, task)
		return
	}
	m.ready[task] = discard
}

// acquire returns memory for a small prefix. It takes that of stalled queues before it
// waits. Once the consumer waits for the file, it waits no longer: the allocation may
// be empty.
func (b *Budget) acquire(ctx context.Context, wanted <-chan struct{}) (*allocation, error) {
	l := &allocation{budget: b}
	for {
		if b.takeLarge(&l.large, smallPrefix) {
			return l, nil
		}
		freed, ok := b.takeSmall(&l.small)
		if ok {
			return l, nil
		}
		retry := time.NewTimer(stallTime / 4)
		select {
		case <-freed:
		case <-retry.C: // others may have stalled
		case <-wanted:
			retry.Stop()
			return l, nil
		case <-ctx.Done():
			retry.Stop()
			return nil, ctx.Err()
		}
		retry.Stop()
	}
}

// takeLarge adds n bytes to an allocation if they are left after stalled queues have discarded
// files.
func (b *Budget) takeLarge(held *int, n int) bool {
	for {
		b.mu.Lock()
		if b.large >= n {
			b.large -= n
			*held += n
			b.mu.Unlock()
			return true
		}
		discard := b.stalled()
		b.mu.Unlock()
		if discard == nil {
			return false
		}
		discard()
	}
}

// takeSmall adds a small prefix to an allocation, or returns a channel that is closed when
// memory becomes free.
func (b *Budget) takeSmall(held *int) (freed <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.small < smallPrefix {
		return b.freed, false
	}
	b.small -= smallPrefix
	*held += smallPrefix
	return nil, true
}

// stalled returns a function that discards a file of the queue that has stalled
// longest, or nil. The caller holds the lock.
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
	for task, discard := range longest.ready {
		delete(longest.ready, task)
		return discard
	}
	return nil
}

// allocation is memory for one prefix.
type allocation struct {
	budget       *Budget
	large, small int
}

// resize adapts the allocation to a prefix of n bytes, and returns how many of them there
// is memory for: at least those of a small prefix.
func (l *allocation) resize(n int) int {
	if missing := n - l.large - l.small; missing > 0 {
		l.budget.takeLarge(&l.large, missing)
	} else {
		large := min(l.large, -missing)
		l.free(large, -missing-large)
	}
	return min(n, max(l.large+l.small, smallPrefix))
}

// release frees all memory. It may be called more than once.
func (l *allocation) release() { l.free(l.large, l.small) }

func (l *allocation) free(large, small int) {
	if large == 0 && small == 0 {
		return
	}
	l.large -= large
	l.small -= small
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.large += large
	b.small += small
	close(b.freed)
	b.freed = make(chan struct{})
}

// prefixes are buffers for files that are large or of unknown size. The extra
// byte lets a read of a file of exactly PrefixSize bytes return io.EOF.
var prefixes = sync.Pool{New: func() any { return new([PrefixSize + 1]byte) }}

// prefixBuffer returns a buffer for a prefix of n bytes.
func prefixBuffer(n int) (buffer []byte, free func()) {
	if n < PrefixSize {
		return make([]byte, n), func() {}
	}
	pooled := prefixes.Get().(*[PrefixSize + 1]byte)
	return pooled[:], sync.OnceFunc(func() { prefixes.Put(pooled) })
}
