package writebehind

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// numbers hands out what was added, one number at a time.
type numbers struct {
	mu      sync.Mutex
	unsaved []int
	saved   []int
}

func (n *numbers) add(loop *Loop, number int) {
	n.mu.Lock()
	n.unsaved = append(n.unsaved, number)
	n.mu.Unlock()
	loop.Start()
}

func (n *numbers) next() (write func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unsaved) == 0 {
		return nil
	}
	number := n.unsaved[0]
	n.unsaved = n.unsaved[1:]
	return func() {
		time.Sleep(time.Millisecond)
		if number%10 == 9 {
			panic("store")
		}
		n.saved = append(n.saved, number) // one goroutine writes
	}
}

func TestLoop_WritesAllBeforeFlushReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var n numbers
		loop := New(n.next)
		is.NoErr(loop.Flush(t.Context())) // nothing to write
		for round := range 3 {
			for i := range 20 {
				n.add(loop, round*20+i)
			}
			is.NoErr(loop.Flush(t.Context()))
			is.Equal(len(n.saved), 18*(round+1)) // two writes of each round panic
		}
		n.add(loop, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		is.Equal(loop.Flush(ctx), context.Canceled)
		is.NoErr(loop.Flush(t.Context()))
	})
}
