package httpapi

import (
	"net"
	"sync"
	"time"
)

// watchdog resets a connection on which a write takes too long. A deadline
// would make the server close it instead, and what is queued would arrive with
// an orderly end behind it.
type watchdog struct {
	conn    net.Conn
	timeout time.Duration
	timer   *time.Timer

	mu  sync.Mutex
	due time.Time // zero while nothing is written
}

// newWatchdog makes one that is at rest.
func newWatchdog(conn net.Conn, timeout time.Duration) *watchdog {
	return &watchdog{conn: conn, timeout: timeout}
}

// start gives a write its time, and stop has to be called after it.
func (w *watchdog) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Now().Add(w.timeout)
	if w.timer == nil {
		w.timer = time.AfterFunc(w.timeout, w.bite)
		return
	}
	w.timer.Reset(w.timeout)
}

// stop returns when the connection is safe from the watchdog.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
	w.timer.Stop()
}

// bite resets the connection, unless the write has just ended for which it was
// called; another may have begun since.
func (w *watchdog) bite() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.due.IsZero() && !time.Now().Before(w.due) {
		reset(w.conn)
	}
}
