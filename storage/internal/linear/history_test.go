package linear

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is a record of concurrent calls.
type history struct {
	start time.Time

	mu    sync.Mutex
	calls []porcupine.Operation
	ids   []int64 // assigned by the store
}

// record makes a call and records its result, start and end.
func (h *history) record(client int, call any, do func() any) {
	began := time.Since(h.start)
	result := do()
	ended := time.Since(h.start)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{
		ClientId: client, Input: call, Output: result, Call: int64(began), Return: int64(ended),
	})
}

// addID records an id that the store has assigned.
func (h *history) addID(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, id)
}

// randomID returns one of the last four ids.
func (h *history) randomID() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.ids[max(0, len(h.ids)-4):]
	if len(last) == 0 {
		return 1 << 40 // does not exist
	}
	return last[rand.N(len(last))]
}

// run returns the history of concurrent clients.
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

// linearizable reports whether some order of the calls, one at a time, explains
// all results.
func (h *history) linearizable(t testing.TB, model porcupine.Model) bool {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model, h.calls, 2*time.Minute) {
	case porcupine.Ok:
		return true
	case porcupine.Unknown:
		t.Fatal("checking the history takes too long")
	}
	return false
}
