package httpapi

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/keys"
)

// errLinkKey means that a link has ended with its key.
var errLinkKey = errors.New("the API key that made this link is not accepted")

// checkLinkKey returns the key that a link belongs to, and [errLinkKey] if it is no
// longer accepted. With open client routes, a link belongs to no key.
func (c *call) checkLinkKey(owner exports.Digest) (keys.Key, error) {
	if c.api.options.DangerouslySkipClientKeys {
		return keys.Key{}, nil
	}
	if c.api.keys == nil || owner == (exports.Digest{}) {
		return keys.Key{}, errLinkKey
	}
	key, err := c.api.keys.VerifyDigest(c.detached(), keys.Digest(owner))
	switch {
	case errors.Is(err, keys.ErrUnavailable):
		return keys.Key{}, err
	case err != nil, !key.Allows(ScopeExportsRead):
		return key, errLinkKey
	}
	return key, nil
}

// authorizeLink checks the key of a link, and calls Authorize once for a request. It
// sets the keyID, also to that of a rejected key.
func (c *call) authorizeLink(owner exports.Digest) error {
	key, err := c.checkLinkKey(owner)
	c.keyID = key.ID
	if err != nil || key.ID == 0 { // with open client routes there is no key
		return err
	}
	return c.permit(&key, nil)
}

// linkKeyInterval is how often the key of a response is checked while a write
// blocks. It is shorter than a lease.
const linkKeyInterval = 200 * time.Millisecond

// keyWatch is a response that ends with the key of its link: no byte is written
// after the key is revoked, and a blocked write is interrupted.
type keyWatch struct {
	*response
	call  *call
	owner exports.Digest

	mu       sync.Mutex
	timer    *time.Timer
	sending  bool // a write has begun
	stopped  bool
	canceled func()
}

// watchLinkKey begins to watch the key of a response. The caller must call stop
// before it returns.
func (c *call) watchLinkKey(owner exports.Digest) *keyWatch {
	k := &keyWatch{response: &c.w, call: c, owner: owner, canceled: func() {}}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(linkKeyInterval, k.check)
	return k
}

// onRevoked sets what is called when the key is revoked.
func (k *keyWatch) onRevoked(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.canceled = f
}

// check runs while the response is sent. An error of the store is left to the next
// write.
func (k *keyWatch) check() {
	_, err := k.call.checkLinkKey(k.owner)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	if err == errLinkKey && k.sending {
		k.canceled()
		stream.Interrupt(k.ResponseWriter, k.call.r)
		return
	}
	k.timer.Reset(linkKeyInterval)
}

// stop ends the watch. After it returns, the connection is not interrupted.
func (k *keyWatch) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
}

// Write implements [io.Writer].
func (k *keyWatch) Write(p []byte) (int, error) {
	if err := k.wait(); err != nil {
		return 0, err
	}
	return k.response.Write(p)
}

// ReadFrom implements [io.ReaderFrom].
func (k *keyWatch) ReadFrom(r io.Reader) (int64, error) {
	if err := k.wait(); err != nil {
		return 0, err
	}
	return k.response.ReadFrom(r)
}

// FlushError implements what [http.ResponseController] calls.
func (k *keyWatch) FlushError() error {
	if err := k.wait(); err != nil {
		return err
	}
	return http.NewResponseController(k.response).Flush()
}

// wait checks the key before each write. While the store is unavailable it waits:
// most outages are shorter than StoreTimeout.
func (k *keyWatch) wait() error {
	k.mu.Lock()
	k.sending = true
	k.mu.Unlock()
	var deadline time.Time
	for {
		_, err := k.call.checkLinkKey(k.owner)
		if err == nil || err == errLinkKey {
			return err
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(k.call.api.options.Limits.StoreTimeout)
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(linkKeyInterval):
		case <-k.call.r.Context().Done():
			return k.call.r.Context().Err()
		}
	}
}
