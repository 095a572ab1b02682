package httpapi

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// minCompressed is the size in bytes from which JSON is compressed. Shorter bodies
// fit into one packet anyway.
const minCompressed = 1024

// acceptsGzip reports whether Accept-Encoding (RFC 9110, section 12.5.3) allows
// gzip and does not prefer no encoding. It ignores malformed elements.
func acceptsGzip(header http.Header) bool {
	const absent = -1
	gzip, identity, others := float64(absent), float64(absent), float64(absent)
	for _, line := range header["Accept-Encoding"] {
		for element := range strings.SplitSeq(line, ",") {
			coding, parameter, weighted := strings.Cut(element, ";")
			var weight *float64
			switch strings.ToLower(strings.Trim(coding, " \t")) {
			case "gzip", "x-gzip":
				weight = &gzip
			case "identity":
				weight = &identity
			case "*":
				weight = &others
			}
			if weight == nil || *weight != absent {
				continue
			}
			if !weighted {
				*weight = 1
			} else if parsed, ok := parseWeight(parameter); ok {
				*weight = parsed
			}
		}
	}
	weightOf := func(weight float64) float64 {
		if weight == absent {
			return max(others, 0)
		}
		return weight
	}
	return weightOf(gzip) > 0 && weightOf(gzip) >= weightOf(identity)
}

// parseWeight parses the weight of an element, such as q=0.5.
func parseWeight(parameter string) (float64, bool) {
	name, text, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
	if !strings.EqualFold(name, "q") || len(text) == 0 || len(text) > len("0.000") ||
		strings.Trim(text, "0123456789.") != "" || len(text) > 1 && text[1] != '.' {
		return 0, false
	}
	weight, err := strconv.ParseFloat(text, 64)
	return weight, err == nil && weight <= 1
}

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
	return acceptsGzip(r.Header)
}

// sendCompressible writes a JSON response without an ETag, compressed if possible.
func (a *API) sendCompressible(w http.ResponseWriter, r *http.Request, body []byte) error {
	if compressible(w, r) && len(body) >= minCompressed {
		body = compress(body)
		w.Header().Set("Content-Encoding", "gzip")
	}
	return a.sendJSON(w, r, body)
}
