package exports

import (
	"context"
	"sync"
)

// writeBehind writes to a store in one goroutine, which exists only while there is
// something to write. Its lock guards the state of its owner.
type writeBehind struct {
	sync.Mutex
	next    func() (write func()) // called with the lock; nil if there is nothing
	writing chan struct{}         // closed when the goroutine ends; nil without one
}

// start makes sure that the goroutine runs. The caller holds the lock.
func (w *writeBehind) start() {
	if w.writing == nil {
		w.writing = make(chan struct{})
		go w.run()
	}
}

func (w *writeBehind) run() {
	for {
		w.Lock()
		write := w.next()
		if write == nil {
			close(w.writing)
			w.writing = nil
			w.Unlock()
			return
		}
		w.Unlock()
		func() {
			var err error // of a Store that panics; what it did not write is lost
			defer recoverToError(&err)
			write()
		}()
	}
}

// flush waits until what there was to write before is written.
func (w *writeBehind) flush(ctx context.Context) error {
	w.Lock()
	writing := w.writing
	w.Unlock()
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
