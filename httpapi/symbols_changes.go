package httpapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

const (
	changeStreamMemory = 16 << 10               // counted for each stream
	commentInterval    = 10 * time.Second       // keeps proxies from closing the connection
	keyCheckInterval   = 200 * time.Millisecond // shorter than the default lease
)

type changeEvent struct {
	Folders   bool     `json:"folders"`
	FolderIDs *[]int64 `json:"folderIds"` // null: of all folders
}

// newEvent returns an event (WHATWG HTML, section 9.2), or a comment if nothing has
// changed.
func newEvent(change symbols.Change) []byte {
	if !change.All && !change.Folders && len(change.FolderIDs) == 0 {
		return []byte(": nothing has changed\n\n")
	}
	data := changeEvent{change.All || change.Folders, orNull(append([]int64{}, change.FolderIDs...), !change.All)}
	return fmt.Appendf(nil, "event: symbols\nid: %s\ndata: %s\n\n", change.ID, marshal(data))
}

// streamChanges responds with a stream of events. It ends with the key or page token of
// the request, its scope or its tenant, and when the server shuts down.
func (e symbolEndpoints) streamChanges(c *call) error {
	id := c.r.Header.Get("Last-Event-ID")
	if c.r.Header["Last-Event-Id"] == nil {
		var err error
		if id, _, err = c.query().get("lastEventId"); err != nil {
			return err
		}
	}
	client := streamClient{client: c.client()}
	if err := c.api.changes.start(client); err != nil {
		return err
	}
	defer c.api.changes.end(client)
	if err := c.reserve(changeStreamMemory); err != nil {
		return err
	}
	begin := func() {
		c.w.Header().Set("Content-Type", "text/event-stream")
		c.w.Header().Set("X-Accel-Buffering", "no")
		c.w.WriteHeader(http.StatusOK)
	}
	if c.r.Method == http.MethodHead {
		begin()
		return nil
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	follower, err := e.all.Tenant(c.tenant).Follow(ctx, id)
	if err != nil {
		return err
	}
	defer follower.Close()
	http.NewResponseController(&c.w).SetReadDeadline(time.Time{}) // that of the server is for the request
	begin()
	out := c.newStream(&c.w)
	if c.sendEvents(out, follower) == nil {
		out.Finish()
	}
	return nil
}

// sendEvents sends changes, each if the request would still be accepted, and comments in
// between. It returns nil when the stream must end, and an error if the client has
// disconnected.
func (c *call) sendEvents(out *stream.Writer, follower *symbols.Follower) error {
	stop := make(chan struct{})
	defer close(stop)
	var interrupt sync.Once
	defer interrupt.Do(func() {}) // one after the response would panic over HTTP/2
	ended := c.watchStream(stop, &interrupt)
	comments := time.NewTicker(commentInterval)
	defer comments.Stop()
	for {
		text := []byte(":\n\n")
		select {
		case <-follower.Changes():
			if !c.accepts() {
				return endStream(out)
			}
			text = newEvent(follower.Take())
		case <-comments.C:
		case <-ended:
			return endStream(out)
		case <-c.r.Context().Done(): // also of middleware
			return endStream(out)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		if err := out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
}

// endStream writes when the client should follow again: not all at once.
func endStream(out *stream.Writer) error {
	_, err := fmt.Fprintf(out, "retry: %d\n\n", 500+rand.IntN(2000))
	return err
}

// watchStream returns a channel that is closed when the key or page token of the request is
// no longer accepted, or the server shuts down. A write that blocks then is interrupted, once.
func (c *call) watchStream(stop <-chan struct{}, interrupt *sync.Once) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		checks := time.NewTicker(keyCheckInterval)
		defer checks.Stop()
		for c.accepts() {
			select {
			case <-checks.C:
				continue
			case <-stream.Shutdown(c.r.Context()):
			case <-stop:
				return
			}
			break
		}
		close(ended)
		select {
		case <-time.After(keyCheckInterval):
			interrupt.Do(func() { stream.Interrupt(&c.w, c.r) })
		case <-stop:
		}
	}()
	return ended
}
