package fetch

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"example.com/canvasback/exports"
)

// Bounds of how many files of one host may be open at a time for one download.
const (
	initialConcurrency = 6
	minConcurrency     = 2
	maxConcurrency     = 16

	maxHosts = 1024 // with a known concurrency
)

// hosts adapts the concurrency of each host to what it can serve: additive increase,
// multiplicative decrease (AIMD, RFC 5681, section 3.1). Until the first sign of
// overload, the increase is faster. It is safe for concurrent use.
type hosts struct {
	mu    sync.Mutex
	loads map[string]*load
}

type load struct {
	concurrency float64
	overloaded  time.Time // when it was reduced
}

// record adapts the concurrency of a host to the outcome of an attempt.
func (h *hosts) record(host string, err error) {
	overload := isOverload(err)
	if err != nil && !overload {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.loads[host]
	if l == nil {
		if len(h.loads) >= maxHosts {
			clear(h.loads)
		}
		l = &load{concurrency: initialConcurrency}
		h.loads[host] = l
	}
	switch {
	case overload && time.Since(l.overloaded) > time.Second: // attempts at the same time fail for one reason
		l.overloaded = time.Now()
		l.concurrency = max(minConcurrency, l.concurrency/2)
	case overload:
	case l.overloaded.IsZero():
		l.concurrency = min(maxConcurrency, l.concurrency+1)
	default:
		l.concurrency = min(maxConcurrency, l.concurrency+1/l.concurrency)
	}
}

// isOverload reports whether an error is a sign that the host has too many requests.
func isOverload(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.status == http.StatusTooManyRequests || status.status == http.StatusServiceUnavailable
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	return isTimeout(err) || errors.Is(err, exports.ErrTimeout)
}
