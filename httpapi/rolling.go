package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"
)

// rolling writes an answer of any length to a client that may be slow but not
// stand still: each piece has a bound of its own in time, which takes the place
// of the server's for the whole answer.
type rolling struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	timeout  time.Duration
	anew     bool      // the server sets a deadline for each request
	watch    *watchdog // bounds the pieces; nil if deadlines have to do that
	unframed bool      // to the client the end of the connection ends the answer
	sent     int64
	flushed  bool
}

// piece is how much is written at once, under one bound. A client stands still
// if it does not take in that time what the kernel wants to see taken before it
// lets a blocked writer go on:
//
//   - 64 KiB with [ConnContext] on Linux, and more where the client's own kernel
//     tells late of room: over loopback 180 KB is too little and 300 KB enough.
//     With the default of a minute the latter is 5 KB a second.
//   - A third of the socket's send buffer without it. That grows to 4 MB, so
//     that a client may have to take 1.3 MB, or 22 KB a second.
//
// The kernel passes on 64 KiB at a time, headers included. Pieces of just less
// go through at up to 1.4 times the speed of larger ones, which leave crumbs.
const piece = 63 << 10

func newRolling(w http.ResponseWriter, r *http.Request, timeout time.Duration) *rolling {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	out := &rolling{
		w:       w,
		control: http.NewResponseController(w),
		timeout: timeout,
		anew:    server != nil && server.WriteTimeout > 0,
	}
	if conn := ownConn(r); conn != nil {
		out.watch = newWatchdog(conn, timeout)
		out.unframed = !r.ProtoAtLeast(1, 1) && w.Header().Get("Content-Length") == ""
		out.control.SetWriteDeadline(time.Time{})
	}
	return out
}

// begin starts the time for a piece, and done ends it. A deadline is left
// behind, for the next one to move: it has no effect while nothing is written.
// Writers without one go on without.
func (r *rolling) begin() {
	if r.watch != nil {
		r.watch.start()
		return
	}
	r.extend()
}

func (r *rolling) done() {
	if r.watch != nil {
		r.watch.stop()
	}
}

func (r *rolling) extend() { r.control.SetWriteDeadline(time.Now().Add(r.timeout)) }

// end moves the deadline once more, for the last bytes, which the server sends
// when the handler has returned. A server that sets no deadlines would leave it
// to cut the next answer on the connection, so there it is removed.
//
// A deadline closes the connection in an orderly way. Where the client would
// take that for the end of the file, the last bytes are sent here.
func (r *rolling) end() {
	if r.unframed && (r.sent > prefetchBytes || r.flushed) { // the server gives a shorter answer a length
		r.Flush()
	}
	if r.anew {
		r.extend()
		return
	}
	r.control.SetWriteDeadline(time.Time{})
}

func (r *rolling) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.write(p[n:min(n+piece, len(p))])
		n += m
	}
	return n, err
}

func (r *rolling) write(p []byte) (int, error) {
	r.begin()
	defer r.done()
	n, err := r.w.Write(p)
	r.sent += int64(n)
	return n, err
}

// Flush sends what is held back.
func (r *rolling) Flush() error {
	r.begin()
	defer r.done()
	r.flushed = true
	return r.control.Flush()
}

// flushIfLate sends the header of an answer whose file has been slow to come,
// and may go on so: the server would hold back the first few KB.
func (r *rolling) flushIfLate(start time.Time) {
	if time.Since(start) > 500*time.Millisecond {
		r.Flush()
	}
}

// readFile writes a file up to size bytes, or to its end if size is negative.
// The kernel copies it where the writer can have it so.
func (r *rolling) readFile(file *os.File, size int64) (n int64, err error) {
	for size < 0 || n < size {
		want := int64(piece)
		if size >= 0 {
			want = min(want, size-n)
		}
		m, err := r.copy(&io.LimitedReader{R: file, N: want})
		n += m
		if err != nil || m < want {
			return n, err
		}
	}
	return n, nil
}

func (r *rolling) copy(piece *io.LimitedReader) (int64, error) {
	r.begin()
	defer r.done()
	n, err := io.Copy(r.w, piece)
	r.sent += n
	return n, err
}

// breakOff ends an answer that has begun and cannot be completed, so that the
// client cannot take what it has for the whole. It does not return.
func (a *api) breakOff(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		a.report(r.Context(), slog.LevelWarn, "answer broken off", "error", err, "requestId", requestID(w))
	}
	panic(http.ErrAbortHandler)
}

// sever resets the connection of an answer, where there is one to be had, and
// else stops it. It comes before a panic that is to end an answer in its middle.
// That alone would do in most cases; but a host's middleware may recover it, and
// then the server completes the answer; and to a client that speaks HTTP/1.0
// the end of the connection is the end of the file.
func sever(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if conn, _, err := control.Hijack(); err == nil {
		reset(conn)
	} else if conn := ownConn(r); conn != nil && r.Context().Err() == nil {
		reset(conn) // it still serves this request, if behind a middleware that hides it
	} else {
		control.SetWriteDeadline(time.Unix(1, 0))
	}
}
