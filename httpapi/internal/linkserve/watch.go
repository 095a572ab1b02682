package linkserve

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/stream"
)

// ErrRevoked means that a link has ended with its key.
var ErrRevoked = errors.New("the API key that made this link is not accepted")

// watchInterval is how often the key of a response is checked while a write blocks. It is
// shorter than the default lease.
const watchInterval = 200 * time.Millisecond

// watch is a response that ends with its link: once CheckKey reports that, no byte is
// written, and a blocked write is interrupted.
type watch struct {
	http.ResponseWriter
	r       *http.Request
	options Options
	cancel  func() // called when the link has ended

	mu      sync.Mutex
	timer   *time.Timer
	sending bool // a write has begun
	stopped bool
}

// watchKey begins to watch the key of a response. The caller must call stop before it
// returns.
func watchKey(w http.ResponseWriter, r *http.Request, o Options, cancel func()) *watch {
	k := &watch{ResponseWriter: w, r: r, options: o, cancel: cancel}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(watchInterval, k.check)
	return k
}

// check runs while the response is sent. An error of the store is left to the next
// write.
func (k *watch) check() {
	err := k.options.CheckKey()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	if isEnd(err) && k.sending {
		k.cancel()
		stream.Interrupt(k.ResponseWriter, k.r)
		return
	}
	k.timer.Reset(watchInterval)
}

// stop ends the watch. After it returns, the connection is not interrupted.
func (k *watch) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
}

func (k *watch) Write(p []byte) (int, error) {
	if err := k.wait(); err != nil {
		return 0, err
	}
	return k.ResponseWriter.Write(p)
}

// FlushError implements what [http.ResponseController] calls.
func (k *watch) FlushError() error {
	if err := k.wait(); err != nil {
		return err
	}
	return http.NewResponseController(k.ResponseWriter).Flush()
}

// isEnd reports whether a link has ended: its key is not accepted, or has another tenant.
func isEnd(err error) bool { return err == ErrRevoked || err == exports.ErrLinkNotFound }

// Unwrap is for [http.ResponseController].
func (k *watch) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// wait checks the key before each write. While the store is unavailable it waits:
// most outages are shorter than StoreTimeout.
func (k *watch) wait() error {
	k.mu.Lock()
	k.sending = true
	k.mu.Unlock()
	err := k.options.CheckKey()
	deadline := time.Now().Add(k.options.StoreTimeout)
	for err != nil && !isEnd(err) && time.Now().Before(deadline) {
		select {
		case <-time.After(watchInterval):
			err = k.options.CheckKey()
		case <-k.r.Context().Done():
			return k.r.Context().Err()
		}
	}
	return err
}
