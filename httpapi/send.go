package httpapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"example.com/canvasback/httpapi/internal/accept"
	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// reply is the JSON response to a change, or to an administrator.
type reply struct {
	body    []byte
	version symbols.Version // of the record, for the ETag; 0 if it has none
	created Resource        // by a request with status 201
}

type messageResponse struct {
	Message string `json:"message"`
}

// messageReply returns a reply that has no record, or the error.
func messageReply(message string, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	return jsonReply(messageResponse{message})
}

// jsonReply returns the JSON of a value.
func jsonReply(value any) (reply, error) {
	body, err := marshal(value)
	return reply{body: body}, err
}

// respond calls f with the context of store calls, and responds with its reply.
func (c *call) respond(status int, f func(context.Context) (reply, error)) error {
	ctx, cancel := c.storeContext()
	defer cancel()
	out, err := f(ctx)
	if err != nil {
		return err
	}
	if status == http.StatusCreated {
		c.touch(out.created)
	}
	if out.version != 0 {
		c.w.Header().Set("ETag", tag{version: out.version}.String())
	}
	return c.send(status, out.body)
}

// encode responds with the JSON of a value.
func (c *call) encode(status int, value any) error {
	body, err := marshal(value)
	if err != nil {
		return err
	}
	c.write(status, body)
	return nil
}

// send responds with JSON. While a slow client receives long JSON, it counts as memory
// of the client, unless the request still counts for as much.
func (c *call) send(status int, body []byte) error {
	if size := int64(len(body)); size > budget.SmallSize && size > c.body.memory.Size() {
		release, err := c.reserveResponse(size, true)
		if err != nil {
			return err
		}
		defer release()
	}
	c.write(status, body)
	return nil
}

// reserveResponse counts memory of a response until release is called. Unless wait is set, it does
// not wait for others. It is a [bodies.Reserve].
func (c *call) reserveResponse(size int64, wait bool) (release func(), err error) {
	memory := c.api.sending.Reserve(c.client())
	if !wait {
		if !memory.TryGrow(size) {
			return nil, budget.ErrExhausted
		}
		return memory.Release, nil
	}
	if err := memory.Grow(c.detached(), size); err != nil {
		return nil, err
	}
	return memory.Release, nil
}

// write is send without counting. An error means that the client has disconnected.
func (c *call) write(status int, body []byte) {
	header := c.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if len(body) <= stream.ChunkSize {
		c.w.Write(body)
		return
	}
	out := c.newStream(&c.w)
	if _, err := out.Write(body); err == nil {
		out.Finish()
	}
}

// sendCompressible responds with JSON without an ETag, compressed if possible.
func (c *call) sendCompressible(body []byte) error {
	if c.compressible() && len(body) >= bodies.MinCompressed {
		body = bodies.Gzip(body)
		c.w.Header().Set("Content-Encoding", "gzip")
	}
	return c.send(http.StatusOK, body)
}

// compressible adds the Vary of a response that may be compressed, and reports
// whether the client accepts that.
func (c *call) compressible() bool {
	c.w.Header().Add("Vary", "Accept-Encoding")
	return accept.Gzip(c.r.Header)
}

// sendBody responds with a body.
func (c *call) sendBody(body *bodies.Body) error {
	header, size := c.w.Header(), body.Size()
	header.Set("Content-Type", "application/json")
	if image := body.Image; image.Type != "" {
		header.Set("Content-Type", image.Type)
		header.Set("Content-Disposition", disposition("inline", image.FileName))
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	}
	if body.Gzip {
		header.Set("Content-Encoding", "gzip")
	}
	if size < 0 {
		return c.stream(func(w io.Writer) error { return body.Write(c.detached(), w) })
	}
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	c.w.WriteHeader(http.StatusOK)
	if size <= stream.ChunkSize {
		body.Write(c.detached(), &c.w)
		return nil
	}
	out := c.newStream(&c.w)
	if body.Write(c.detached(), out) == nil { // an error means that the client has disconnected
		out.Finish()
	}
	return nil
}

// stream writes the header and then the body that write writes. The error of write
// aborts the response.
func (c *call) stream(write func(io.Writer) error) error {
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

// streamed is a response of unknown length, of which little is in memory at a time.
type streamed struct {
	io.Writer
	call   *call
	memory budget.Reservation[client]
}

// streamMemory is what a streamed response takes at least: a page of short records,
// encoded, and a compressor.
const streamMemory = 2 << 20

// reserve counts size bytes in addition to streamMemory, if that is more than before.
func (s *streamed) reserve(size int64) error {
	return s.memory.Grow(s.call.detached(), streamMemory+size)
}

// streamCounted is stream for a response whose memory write counts.
func (c *call) streamCounted(write func(*streamed) error) error {
	out := &streamed{call: c, memory: c.api.sending.Reserve(c.client())}
	defer out.memory.Release()
	if err := out.reserve(0); err != nil {
		return err
	}
	return c.stream(func(w io.Writer) error {
		out.Writer = w
		return write(out)
	})
}

// streamJSON is streamCounted for JSON, compressed if possible.
func (c *call) streamJSON(write func(*streamed) error) error {
	header := c.w.Header()
	header.Set("Content-Type", "application/json")
	if !c.compressible() {
		return c.streamCounted(write)
	}
	header.Set("Content-Encoding", "gzip")
	return c.streamCounted(func(out *streamed) error {
		const block = 64 << 10 // is compressed at a time
		compressor := bodies.NewGzipWriter(out.Writer)
		buffer := bufio.NewWriterSize(compressor, block)
		out.Writer = buffer
		if err := write(out); err != nil {
			return err
		}
		if err := buffer.Flush(); err != nil {
			return err
		}
		return compressor.Close()
	})
}

// newStream returns a Writer of a response that may be long, and whose header is
// complete.
func (c *call) newStream(w http.ResponseWriter) *stream.Writer {
	if stream.Buffers(w, c.r) {
		c.api.warnBuffered()
	}
	out := stream.New(w, c.r, c.api.options.IdleTimeout)
	if !stream.IsNetHTTP(c.r) {
		out.Flush() // the adaptor of fasthttp streams what is written after a Flush
	}
	return out
}

// flushIfSlow sends the header of a response whose first file took long to open.
// The server would buffer it together with the first 4 KiB of the body.
func flushIfSlow(out *stream.Writer, start time.Time) {
	if time.Since(start) > 500*time.Millisecond {
		out.Flush()
	}
}
