package prefetch

import (
	"context"
	"sync"
)

// PrefixSize is how many bytes of a file are prefetched at most. A file of up
// to this size is complete before it is consumed.
const PrefixSize = 1 << 20

// Budget bounds the memory for prefixes of all queues that share it. It is safe
// for concurrent use.
type Budget struct {
	slots chan struct{} // holds one element per prefix in use
}

// NewBudget returns a Budget of the given number of bytes.
func NewBudget(bytes int) *Budget {
	return &Budget{slots: make(chan struct{}, bytes/PrefixSize)}
}

// acquire waits for memory for one prefix. It returns at once for the file that
// the consumer waits for, so each queue may hold one prefix beyond the budget.
func (b *Budget) acquire(ctx context.Context, wanted <-chan struct{}) (release func(), err error) {
	select {
	case b.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-b.slots }), nil
	case <-wanted:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prefixes are buffers for files that are large or of unknown size. The extra
// byte lets a read of a file of exactly PrefixSize bytes return io.EOF.
var prefixes = sync.Pool{New: func() any { return new([PrefixSize + 1]byte) }}

// prefixBuffer returns a buffer for the prefix of a file of the given size, -1
// if unknown. Of a file larger than PrefixSize it holds limit bytes unless that is
// zero.
func prefixBuffer(size int64, limit int) (buffer []byte, free func()) {
	switch {
	case 0 <= size && size < PrefixSize/2:
		return make([]byte, size+1), func() {}
	case limit > 0 && size > PrefixSize:
		return make([]byte, limit), func() {}
	}
	pooled := prefixes.Get().(*[PrefixSize + 1]byte)
	return pooled[:], sync.OnceFunc(func() { prefixes.Put(pooled) })
}
