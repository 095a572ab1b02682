// Package writebehind writes to a store behind the responses that have something to
// write.
package writebehind

import (
	"context"
	"sync"
)

// Loop calls functions that write, one after the other. Its goroutine exists only
// while there is something to write. It is safe for concurrent use.
type Loop struct {
	next func() (write func())

	mu      sync.Mutex
	again   bool          // next must be called once more
	writing chan struct{} // closed when the goroutine ends; nil without one
}

// New returns a Loop. It calls next for each function, and ends when that returns nil.
// What a function that panics did not write is lost.
func New(next func() (write func())) *Loop { return &Loop{next: next} }

// Start makes sure that next is called.
func (l *Loop) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.again = true
	if l.writing == nil {
		l.writing = make(chan struct{})
		go l.run()
	}
}

func (l *Loop) run() {
	for !l.end() {
		for write := l.next(); write != nil; write = l.next() {
			func() {
				defer func() { recover() }()
				write()
			}()
		}
	}
}

func (l *Loop) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again {
		l.again = false
		return false
	}
	close(l.writing)
	l.writing = nil
	return true
}

// Flush waits until what there was to write before is written.
func (l *Loop) Flush(ctx context.Context) error {
	l.mu.Lock()
	writing := l.writing
	l.mu.Unlock()
	if writing == nil {
		return nil
	}
	select {
	case <-writing:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
