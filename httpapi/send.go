package httpapi

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/httpapi/internal/accept"
	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// reply is the JSON response to a change, or to an administrator.
type reply struct {
	body    []byte
	version symbols.Version // of the record, for the ETag; 0 if it has none
	created Resource        // by a request with status 201
}

// messageReply returns a reply that has no record.
func messageReply(message string, err error) (reply, error) {
	return reply{body: marshal(map[string]string{"message": message})}, err
}

func countReply(field string, n int, err error) (reply, error) {
	return reply{body: marshal(map[string]int{field: n})}, err
}

// respond calls f with the context of store calls, and responds with its reply.
func (c *call) respond(status int, f func(context.Context) (reply, error)) error {
	ctx, cancel := c.storeContext()
	defer cancel()
	out, err := f(ctx)
	if err != nil {
		return err
	}
	if status == http.StatusCreated && out.created.ID != 0 { // an import has added its own
		c.touch(out.created.Kind, out.created.ID)
	}
	if out.version != 0 {
		c.w.Header().Set("ETag", tag{version: out.version}.String())
	}
	return c.send(status, out.body)
}

func (c *call) encode(status int, value any) error {
	body := marshal(value)
	return c.send(status, body)
}

// marshal returns the JSON of a response. It replaces invalid UTF-8, which must not make it
// fail.
func marshal(value any) []byte {
	text, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return text
}

// send responds with JSON, which counts as memory of the client while it is slow. It does
// so without memory, too, because the request may have changed something.
func (c *call) send(status int, body []byte) error {
	c.count(int64(len(body)))
	c.write("application/json", status, body)
	return nil
}

// write is send without counting, for any media type.
func (c *call) write(mediaType string, status int, body []byte) {
	c.w.Header().Set("Content-Type", mediaType)
	c.writeSized(status, int64(len(body)), func(w io.Writer) error {
		_, err := w.Write(body)
		return err
	})
}

// writeSized writes the header and then the size bytes that write writes.
func (c *call) writeSized(status int, size int64, write func(io.Writer) error) {
	c.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return
	}
	if size <= stream.ChunkSize && !stream.IsHTTP2(&c.w, c.r) { // over HTTP/2 the client may have no window
		write(&c.w)
		return
	}
	out := c.newStream(&c.w)
	if c.aborted = write(out) != nil; !c.aborted { // an error means that the client has disconnected
		out.Finish()
	}
}

// sendCompressible responds with JSON without an ETag, compressed if possible.
func (c *call) sendCompressible(body []byte) error {
	if err := c.count(int64(len(body))); err != nil {
		return err
	}
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

func (c *call) sendBody(body *bodies.Body) error {
	header, size := c.w.Header(), body.Size()
	header.Set("Content-Type", "application/json")
	if image := body.Image; image.Type != "" {
		header.Set("Content-Type", image.Type)
		header.Set("Content-Disposition", filename.Disposition("inline", image.FileName))
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	}
	if body.Gzip {
		header.Set("Content-Encoding", "gzip")
	}
	write := func(w io.Writer) error { return body.Write(c.detached(), w) }
	if size < 0 {
		return c.stream(func(out *stream.Writer) error { return write(keyWriter{out, c}) })
	}
	c.writeSized(http.StatusOK, size, write)
	return nil
}
