package stream

import (
	"net"
	"net/http"
	"time"
)

// Abort resets the connection of a response, or the stream over HTTP/2, so that
// the client sees that the response is incomplete. Call it before
// panic(http.ErrAbortHandler): the panic alone is not enough if a middleware
// recovers it, or if the client speaks HTTP/1.0 and takes FIN for the end of the
// body.
//
// Without [ConnContext], a middleware whose ResponseWriter has neither Unwrap nor
// Hijack makes Abort ineffective.
func Abort(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if conn, _, err := control.Hijack(); err == nil {
		resetConn(conn)
	} else if conn := http1Conn(r); conn != nil && r.Context().Err() == nil {
		resetConn(conn) // it still serves this request; a middleware hides it
	} else {
		control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// resetConn closes a connection with RST, which no peer takes for the end of a
// body.
func resetConn(conn net.Conn) {
	inner := netConn(conn)
	if tcp, ok := inner.(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(0)
	}
	inner.Close()
}
