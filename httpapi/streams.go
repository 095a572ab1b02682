package httpapi

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/httpapi/internal/stream"
)

// streamLimiter limits how many long responses of a kind a client, and all clients, may
// have at a time. A download holds a connection to an origin, and as much memory as its
// slowest reader needs.
type streamLimiter struct {
	limit int    // of a client; no limit if negative
	total int    // of all; no limit if 0 or less
	kind  string // in the message

	mu      sync.Mutex
	running map[streamClient]int
	count   int // of all
}

func newStreamLimiter(limit, total int, kind string) *streamLimiter {
	return &streamLimiter{limit: limit, total: total, kind: kind, running: make(map[streamClient]int)}
}

// streamClient is a client, or one of its page tokens, or all of them.
type streamClient struct {
	client
	token string // the id, or allTokens; empty: none
}

const (
	allTokens = "all"

	// maxTokenClients is as how many clients all tokens of a key count: visitors of one
	// page must not starve each other.
	maxTokenClients = 16
)

// start counts a response, until the caller calls end.
func (l *streamLimiter) start(c streamClient) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := streamClient{c.client, allTokens}
	own := l.limit >= 0 && (l.running[c] >= l.limit || c.token != "" && l.running[all]/maxTokenClients >= l.limit)
	if own || l.total > 0 && l.count >= l.total {
		return &DeniedError{Message: "too many " + l.kind + " of this client at a time", RetryAfter: time.Second}
	}
	l.count++
	l.running[c]++
	if c.token != "" {
		l.running[all]++
	}
	return nil
}

func (l *streamLimiter) end(c streamClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	list := []streamClient{c}
	if c.token != "" {
		list = append(list, streamClient{c.client, allTokens})
	}
	for _, c := range list {
		if l.running[c]--; l.running[c] == 0 {
			delete(l.running, c)
		}
	}
}

// all returns how many responses are counted.
func (l *streamLimiter) all() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// download returns an endpoint that counts as a download of its client while it runs.
func download(next endpoint) endpoint {
	return func(c *call) error {
		streams, client := c.api.streams, streamClient{c.client(), c.tokenID}
		if err := streams.start(client); err != nil {
			return err
		}
		defer streams.end(client)
		return next(c)
	}
}

// stream writes the header and then the body that write writes. The error of write
// aborts the response.
func (c *call) stream(write func(*stream.Writer) error) error {
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	out := c.newStream(&c.w)
	if err := write(out); err != nil {
		c.abort(err)
	}
	out.Finish()
	return nil
}

// sendAttachment writes the header of a file, of size bytes unless that is negative, and then
// what write writes. Its error aborts the response.
func (c *call) sendAttachment(mediaType, name string, size int64, write func(*stream.Writer) error) error {
	header := c.w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Disposition", filename.Disposition("attachment", name))
	if size >= 0 {
		header.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	return c.stream(write)
}

// newStream returns a Writer of a response that may be long, and whose header is complete.
// It sends the header at once if the request has taken long, such as to open a file: the
// server would buffer it with 4 KiB of the body.
func (c *call) newStream(w http.ResponseWriter) *stream.Writer {
	if text := stream.Warning(w, c.r); text != "" {
		c.api.warnOnce.Do(func() { c.api.options.Logger.Warn(text) })
	}
	out := stream.New(w, c.r, c.api.options.Limits.IdleTimeout)
	if time.Since(c.start) > 500*time.Millisecond {
		out.Flush()
	}
	return out
}

// keyWriter writes a list that is read meanwhile, until the key of the request is revoked.
type keyWriter struct {
	io.Writer
	c *call
}

func (w keyWriter) Write(p []byte) (int, error) {
	if err := w.c.checkAfterWait(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

// streamMemory is what a streamed list takes at least: a page of short records, encoded,
// and a compressor.
const streamMemory = 2 << 20

// streamJSON is stream for a list of records that write reads meanwhile, compressed if
// possible.
func (c *call) streamJSON(write func(io.Writer) error) error {
	if err := c.reserve(streamMemory); err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Content-Type", "application/json")
	if !c.compressible() {
		return c.stream(func(out *stream.Writer) error { return write(keyWriter{out, c}) })
	}
	header.Set("Content-Encoding", "gzip")
	return c.stream(func(out *stream.Writer) error {
		buffer := bufio.NewWriterSize(keyWriter{out, c}, stream.ChunkSize)
		compressor := gzip.NewWriter(buffer)
		if err := write(compressor); err != nil {
			return err
		}
		if err := compressor.Close(); err != nil {
			return err
		}
		return buffer.Flush()
	})
}
