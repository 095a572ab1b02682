package httpapi

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"sync"

	"example.com/canvasback/httpapi/internal/accept"
)

// minCompressed is the size in bytes from which JSON is compressed. Shorter bodies
// fit into one packet anyway.
const minCompressed = 1024

// gzipWriters are reused: one takes 800 KB.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// gzipWriter is a [gzip.Writer] that must not be used after Close.
type gzipWriter struct{ *gzip.Writer }

func newGzipWriter(w io.Writer) *gzipWriter {
	out := gzipWriters.Get().(*gzip.Writer)
	out.Reset(w)
	return &gzipWriter{out}
}

func (w *gzipWriter) Close() error {
	defer w.discard()
	return w.Writer.Close()
}

func (w *gzipWriter) discard() { gzipWriters.Put(w.Writer) }

// compressTo applies gzip to what write writes. After an error the output is
// truncated.
func compressTo(w io.Writer, write func(io.Writer) error) error {
	out := newGzipWriter(w)
	if err := write(out); err != nil {
		out.discard()
		return err
	}
	return out.Close()
}

// compress returns body with gzip applied.
func compress(body []byte) []byte {
	var buffer bytes.Buffer
	compressTo(&buffer, func(w io.Writer) error { // a Buffer returns no error
		_, err := w.Write(body)
		return err
	})
	return bytes.Clone(buffer.Bytes())
}

// compressible adds the Vary of a response that may be compressed, and reports
// whether the client accepts that.
func compressible(w http.ResponseWriter, r *http.Request) bool {
	if header := w.Header(); header["Vary"] != nil {
		header.Add("Vary", "Accept-Encoding")
	} else {
		setHeader(w, "Vary", "Accept-Encoding")
	}
	return accept.Gzip(r.Header)
}

// sendCompressible writes a JSON response without an ETag, compressed if possible.
func (a *API) sendCompressible(w http.ResponseWriter, r *http.Request, body []byte) error {
	if compressible(w, r) && len(body) >= minCompressed {
		body = compress(body)
		w.Header().Set("Content-Encoding", "gzip")
	}
	return a.sendJSON(w, r, body)
}
