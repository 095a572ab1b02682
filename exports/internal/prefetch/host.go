package prefetch

import (
	"sync"
)

// host limits how many files of one host are open, and admits them in order. It is
// safe for concurrent use.
type host struct {
	breaker     *breaker
	concurrency func() int

	mu      sync.Mutex
	files   int // admitted, and not left
	waiting []chan struct{}
}

// newHost returns a host whose files fail after two rounds of timeouts: the second one
// may have half as many files.
func newHost(concurrency func() int, all *breaker) *host {
	return &host{breaker: newBreaker(concurrency()*3/2, all), concurrency: concurrency}
}

// enter adds a file. It returns a channel that is closed when the file is admitted.
func (h *host) enter() <-chan struct{} {
	admitted := make(chan struct{})
	h.mu.Lock()
	h.waiting = append(h.waiting, admitted)
	h.mu.Unlock()
	h.admit()
	return admitted
}

func (h *host) leave() {
	h.mu.Lock()
	h.files--
	h.mu.Unlock()
	h.admit()
}

// admit admits as many files as Concurrency allows now.
func (h *host) admit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.waiting) > 0 && h.files < h.concurrency() {
		close(h.waiting[0])
		h.waiting = h.waiting[1:]
		h.files++
	}
}
