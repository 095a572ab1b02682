// Package stream writes long responses to slow clients.
//
// A [Writer] limits the time of each chunk instead of the time of the response.
// [Abort] ensures that a truncated response does not look complete. Over HTTP/1
// both depend on [ConnContext] for their full effect.
package stream

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// ChunkSize is how many bytes a [Writer] writes under one timeout. A client times out if
// it does not drain as much as the kernel requires before it wakes a blocked writer: see
// ConnContext in package httpapi. With a timeout of a minute that is 5 KB/s with
// [ConnContext] on Linux, and otherwise up to 22 KB/s.
//
// 63 KiB chunks measured 1.4x faster than 64 KiB ones, which split into two segments.
const ChunkSize = 63 << 10

// serverBuffer is how many bytes of a response net/http buffers. It computes
// the Content-Length of a response that fits.
const serverBuffer = 4 << 10

// Writer writes the body of one response. It is not safe for concurrent use.
type Writer struct {
	w          http.ResponseWriter
	control    *http.ResponseController
	conn       net.Conn // serves this response and nothing else; nil if it is unknown
	timeout    time.Duration
	chunkSize  int // bytes per write
	http2      bool
	noFlush    bool  // see canFlush
	untilClose bool  // closing the connection ends the body
	sent       int64 // bytes
	flushed    bool
}

// New returns a Writer of the body of w, whose header must be complete. A client
// that makes no progress for idleTimeout loses its connection. For this response
// the timeout replaces the server's WriteTimeout. A ResponseWriter without write
// deadlines has no timeout, unless the connection comes from [ConnContext].
func New(w http.ResponseWriter, r *http.Request, idleTimeout time.Duration) *Writer {
	out := &Writer{
		w:         w,
		control:   http.NewResponseController(w),
		conn:      http1Conn(w, r),
		timeout:   idleTimeout,
		chunkSize: ChunkSize,
		http2:     IsHTTP2(w, r),
		noFlush:   !canFlush(Innermost(w)),
	}
	if !out.http2 && w.Header().Get("Content-Length") == "" {
		out.chunkSize += serverBuffer - 16 // net/http puts these behind the chunk header in its buffer
	}
	if out.conn != nil {
		setUserTimeout(netConn(out.conn), idleTimeout)
		setLinger(out.conn, 0) // until Finish: the server closes the connection after a failed write
		out.untilClose = !r.ProtoAtLeast(1, 1) && w.Header().Get("Content-Length") == ""
	}
	return out
}

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (n int, err error) {
	defer w.endDeadline()
	for n < len(p) && err == nil {
		w.extendDeadline()
		var m int
		m, err = w.w.Write(p[n:min(n+w.chunkSize, len(p))])
		w.sent += int64(m)
		n += m
	}
	return n, err
}

// Warning returns what is wrong with a Writer of w if w cannot set deadlines: it probably
// holds the response in memory, or the WriteTimeout of the server ends it. It is empty
// otherwise.
func Warning(w http.ResponseWriter, r *http.Request) string {
	w = Innermost(w)
	_, deadlines := w.(interface{ SetWriteDeadline(time.Time) error })
	switch {
	case deadlines:
		return ""
	case !canFlush(w):
		return "downloads may be buffered: the ResponseWriter can neither flush nor set deadlines, as behind http.TimeoutHandler"
	case http1Conn(w, r) == nil && r.Context().Value(http.ServerContextKey) != nil:
		return "downloads end with the WriteTimeout of the server: the ResponseWriter cannot set deadlines, as behind middleware without Unwrap"
	}
	return ""
}

func canFlush(w http.ResponseWriter) bool {
	switch w.(type) {
	case http.Flusher, interface{ FlushError() error }:
		return true
	}
	return false
}

// Flush sends what the server has buffered, the header included, if it can. Echo's
// ResponseWriter would panic if it cannot.
func (w *Writer) Flush() error {
	if w.noFlush {
		return http.ErrNotSupported
	}
	w.extendDeadline()
	defer w.endDeadline()
	w.flushed = true
	return w.control.Flush()
}

// Copy writes src up to its end, or its first size bytes unless size is
// negative. The kernel copies an *os.File if it can.
func (w *Writer) Copy(src io.Reader, size int64) (int64, error) {
	if file, ok := src.(*os.File); ok {
		return w.copyFile(file, size)
	}
	if size >= 0 {
		src = io.LimitReader(src, size)
	}
	buffer, free := copyBuffer()
	defer free()
	// WriterTo and ReaderFrom are hidden: they use buffers of other sizes.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, buffer)
}

// ReadFrom implements [io.ReaderFrom] by [Writer.Copy]. With it [io.CopyN] lets the
// kernel copy an *os.File.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if !ok {
		return w.Copy(src, -1)
	}
	n, err := w.Copy(limited.R, max(limited.N, 0))
	limited.N -= n
	return n, err
}

// Buffers of Copy. Reads of 252 KiB measured 1.15x faster than those of 63 KiB, but at
// most 16 responses have such a buffer: a slow client holds it until the end.
var (
	buffers      = sync.Pool{New: func() any { return new([ChunkSize]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([4 * ChunkSize]byte) }}
	largeInUse   = make(chan struct{}, 16)
)

func copyBuffer() (buffer []byte, free func()) {
	select {
	case largeInUse <- struct{}{}:
		large := largeBuffers.Get().(*[4 * ChunkSize]byte)
		return large[:], func() {
			largeBuffers.Put(large)
			<-largeInUse
		}
	default:
		small := buffers.Get().(*[ChunkSize]byte)
		return small[:], func() { buffers.Put(small) }
	}
}

func (w *Writer) copyFile(file *os.File, size int64) (n int64, err error) {
	defer w.endDeadline()
	for size < 0 || n < size {
		want := int64(ChunkSize)
		if size >= 0 {
			want = min(want, size-n)
		}
		w.extendDeadline()
		m, err := io.Copy(w.w, &io.LimitedReader{R: file, N: want})
		w.sent += m
		n += m
		if err != nil || m < want {
			return n, err
		}
	}
	return n, nil
}

// Finish must be called after the last byte. It extends the deadline for the bytes that
// the server flushes after the handler returns. The server then ends the deadline.
//
// If closing the connection ends the body, Finish sends the last bytes itself: after an
// expired deadline the server would close the connection with FIN.
func (w *Writer) Finish() {
	if w.untilClose && (w.sent > serverBuffer || w.flushed) && w.Flush() != nil {
		return // the connection is reset
	}
	if w.conn != nil {
		setLinger(w.conn, -1)
	}
	w.extendDeadline()
}

func (w *Writer) extendDeadline() {
	set := w.control.SetWriteDeadline
	if w.conn != nil {
		set = w.conn.SetWriteDeadline
	}
	set(time.Now().Add(w.timeout))
}

// endDeadline ends the deadline of a chunk over HTTP/2, where it would reset the stream
// while nothing is written. Over HTTP/1 it has no effect then.
func (w *Writer) endDeadline() {
	if w.http2 {
		w.control.SetWriteDeadline(time.Time{})
	}
}

// Abort resets the connection of a response, or the stream over HTTP/2, so that
// the response does not look complete. Call it before panic(http.ErrAbortHandler).
// The panic alone is not enough if a middleware recovers it, or for an HTTP/1.0
// client, which takes FIN for the end of the body.
//
// Behind a ResponseWriter with neither Unwrap nor Hijack, Abort has no effect over
// HTTP/2 or without [ConnContext].
func Abort(w http.ResponseWriter, r *http.Request) {
	if hijacker, ok := Innermost(w).(http.Hijacker); ok && r.ProtoMajor == 1 { // gin's would fail once the body has begun
		if conn, _, err := hijacker.Hijack(); err == nil {
			resetConn(conn)
			return
		}
	}
	if conn := http1Conn(w, r); conn != nil && r.Context().Err() == nil {
		resetConn(conn) // it still serves this request
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
}

// Interrupt resets the connection of a response, or the stream over HTTP/2, from
// another goroutine than the handler's. A blocked write returns. Over HTTP/2, or without
// [ConnContext], the handler must begin no other one. Over HTTP/1 without it the client may
// receive what is queued and FIN; the handler must then call [Abort].
func Interrupt(w http.ResponseWriter, r *http.Request) {
	if conn := http1Conn(w, r); conn != nil {
		resetConn(conn)
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
}

// resetConn closes a connection with RST, which no peer takes for the end of a
// body.
func resetConn(conn net.Conn) {
	setLinger(conn, 0)
	netConn(conn).Close()
}

// setLinger makes closing a connection reset it if seconds is 0, and undoes that if it is
// negative: the client of a closed one receives the queued bytes and FIN.
func setLinger(conn net.Conn, seconds int) {
	if tcp, ok := netConn(conn).(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(seconds)
	}
}

// Innermost returns the ResponseWriter of the server, or of a middleware that hides
// it.
func Innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

// ConnContext is for the ConnContext field of [http.Server]. It limits what the
// kernel queues of conn, and stores conn in the context for [New] and [Abort].
// Package httpapi documents the effects.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	setNotSentLowat(netConn(conn))
	return context.WithValue(ctx, connKey{}, conn)
}

type connKey struct{}

// http1Conn returns the connection that serves r and nothing else, or nil. It is
// nil for HTTP/2, whose connections are shared, and without [ConnContext].
func http1Conn(w http.ResponseWriter, r *http.Request) net.Conn {
	if IsHTTP2(w, r) {
		return nil
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
}

// IsHTTP2 reports whether the response is sent over HTTP/2. A request that has upgraded its
// connection (RFC 7540, section 3.2), as with package h2c, still has the version 1.1. Servers
// that do not upgrade receive the same header, but their connections can be hijacked.
func IsHTTP2(w http.ResponseWriter, r *http.Request) bool {
	_, http1 := Innermost(w).(http.Hijacker)
	return r.ProtoMajor > 1 || !http1 && r.Header["Http2-Settings"] != nil
}

func netConn(conn net.Conn) net.Conn {
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return outer.NetConn()
	}
	return conn
}

type shutdownKey struct{}

// WithShutdown adds a channel to the context of a connection that is closed when its server
// shuts down.
func WithShutdown(ctx context.Context, shutdown <-chan struct{}) context.Context {
	return context.WithValue(ctx, shutdownKey{}, shutdown)
}

// Shutdown returns the channel of WithShutdown, or nil.
func Shutdown(ctx context.Context) <-chan struct{} {
	shutdown, _ := ctx.Value(shutdownKey{}).(<-chan struct{})
	return shutdown
}
