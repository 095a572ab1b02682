package stream

import (
	"net"
	"sync"
	"time"
)

// watchdog resets a connection if a write takes too long. After an expired write
// deadline the server would close the connection instead, and the client would
// receive what is queued followed by FIN.
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

// expire resets the connection. The write that the timer was set for may have
// ended meanwhile, and another one may have begun.
func (w *watchdog) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
		resetConn(w.conn)
	}
}
