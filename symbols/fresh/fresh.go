// Package fresh shares reads of a store, so that many callers cost it little more than one.
// It serves packages keys and symbols, without a promise of compatibility.
package fresh

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Reads shares reads, by key.
//
// Invariant: a read serves only the calls that began before it. So no result is older than its call,
// and a call waits for at most one other read before its own, unless contexts end. Package
// singleflight cannot do this, because its calls join a running one.
//
// Reads of one key do not overlap. The zero value is ready to use.
type Reads[K comparable, V any] struct {
	mu   sync.Mutex
	keys map[K]*read[V] // those that have callers
}

// read is the last read of a key.
type read[V any] struct {
	callers int           // protected by Reads.mu
	clock   atomic.Int64  // orders calls and reads
	turn    chan struct{} // held by the caller that reads; protects the fields below
	begun   int64         // when the read began; 0: it serves only its caller
	value   V
	err     error
}

// ErrPanic is what other callers get if a read panics.
var ErrPanic = errors.New("panic during a shared read")

// Get returns the result of a read that began during the call. The caller that reads
// uses its own context; if that ends, the others read themselves.
func (f *Reads[K, V]) Get(ctx context.Context, key K, do func(context.Context, K) (V, error)) (V, error) {
	r := f.join(key)
	defer f.leave(key, r)
	called := r.clock.Add(1)
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return *new(V), ctx.Err()
	}
	if r.begun > called {
		return r.value, r.err
	}
	r.begun, r.err = r.clock.Add(1), ErrPanic
	r.value, r.err = do(ctx, key)
	if ctx.Err() != nil {
		r.begun = 0
	}
	return r.value, r.err
}

func (f *Reads[K, V]) join(key K) *read[V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.keys[key]
	if r == nil {
		if f.keys == nil {
			f.keys = make(map[K]*read[V])
		}
		r = &read[V]{turn: make(chan struct{}, 1)}
		f.keys[key] = r
	}
	r.callers++
	return r
}

func (f *Reads[K, V]) leave(key K, r *read[V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.callers--; r.callers == 0 {
		delete(f.keys, key)
	}
}
