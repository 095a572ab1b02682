package linear

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is what concurrent clients do and see.
type history struct {
	start time.Time

	mu    sync.Mutex
	calls []porcupine.Operation
	ids   []int64 // that have been given
}

// record makes a call and notes when it began, what came of it, and when.
func (h *history) record(client int, call any, do func() any) {
	began := time.Since(h.start)
	answer := do()
	ended := time.Since(h.start)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{
		ClientId: client, Input: call, Output: answer, Call: int64(began), Return: int64(ended),
	})
}

// given notes an id.
func (h *history) given(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, id)
}

// anyID returns one of the last ids that were given.
func (h *history) anyID() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.ids[max(0, len(h.ids)-4):]
	if len(last) == 0 {
		return 1 << 40 // of nothing
	}
	return last[rand.N(len(last))]
}

// run has clients make calls at once.
func run(clients, calls int, call func(h *history, client, n int)) *history {
	h := &history{start: time.Now()}
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for n := range calls {
				call(h, client, n)
			}
		})
	}
	group.Wait()
	return h
}

// explained reports whether there is an order of the calls that explains all
// answers.
func (h *history) explained(t testing.TB, model porcupine.Model) bool {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model, h.calls, 2*time.Minute) {
	case porcupine.Ok:
		return true
	case porcupine.Unknown:
		t.Fatal("the history is too long to be checked")
	}
	return false
}
