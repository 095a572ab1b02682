package stream

import (
	"net"
	"sync"
	"time"
)

// watchdog resets a connection if a write takes too long. After an expired write
// deadline the server would close the connection instead: the client would
// receive the queued bytes and FIN.
type watchdog struct {
	conn    net.Conn
	timeout time.Duration
	timer   *time.Timer

	mu       sync.Mutex
	deadline time.Time // zero between writes
}

func newWatchdog(conn net.Conn, timeout time.Duration) *watchdog {
	return &watchdog{conn: conn, timeout: timeout}
}

// start begins a write, which stop must end.
func (w *watchdog) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = time.Now().Add(w.timeout)
	if w.timer == nil {
		w.timer = time.AfterFunc(w.timeout, w.expire)
		return
	}
	w.timer.Reset(w.timeout)
}

// stop ends a write. After it returns, the watchdog does not reset the
// connection.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = time.Time{}
	w.timer.Stop()
}

// expire resets the connection if the deadline of a write has passed. The timer
// may fire when its write has just ended and another one has begun.
func (w *watchdog) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
		resetConn(w.conn)
	}
}
