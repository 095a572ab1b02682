package httpapi

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// rolling writes an answer of any length to a client that may be slow but not
// stand still: each piece has a deadline of its own, which takes the place of
// the server's for the whole answer.
type rolling struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	anew    bool // the server sets a deadline for each request
}

// piece is how much is written at once, under one deadline. A client that takes
// less than that in the time allowed stands still: with the default of a
// minute, one that takes 1.1 KB a second does not.
//
// The kernel passes on 64 KiB at a time, headers included. Pieces of just less
// go through at up to 1.4 times the speed of larger ones, which leave crumbs.
const piece = 63 << 10

func newRolling(w http.ResponseWriter, r *http.Request, timeout time.Duration) *rolling {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return &rolling{
		w:       w,
		control: http.NewResponseController(w),
		timeout: timeout,
		anew:    server != nil && server.WriteTimeout > 0,
	}
}

// extend moves the deadline. Writers without one go on without.
func (r *rolling) extend() { r.control.SetWriteDeadline(time.Now().Add(r.timeout)) }

// end moves the deadline once more, for the last bytes, which the server sends
// when the handler has returned. A server that sets no deadlines would leave it
// to cut the next answer on the connection, so there it is removed.
func (r *rolling) end() {
	if r.anew {
		r.extend()
		return
	}
	r.control.SetWriteDeadline(time.Time{})
}

func (r *rolling) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		r.extend()
		var m int
		m, err = r.w.Write(p[n:min(n+piece, len(p))])
		n += m
	}
	return n, err
}

// Flush sends what is held back.
func (r *rolling) Flush() error {
	r.extend()
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
		r.extend()
		m, err := io.Copy(r.w, &io.LimitedReader{R: file, N: want})
		n += m
		if err != nil || m < want {
			return n, err
		}
	}
	return n, nil
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
func sever(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	if conn, _, err := control.Hijack(); err == nil {
		reset(conn)
	} else {
		control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// reset closes a connection in a way that no peer takes for an orderly end.
func reset(conn net.Conn) {
	inner := conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		inner = secure.NetConn()
	}
	if tcp, ok := inner.(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(0)
	}
	inner.Close()
}
