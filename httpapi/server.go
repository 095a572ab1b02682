package httpapi

import (
	"context"
	"net"

	"example.com/canvasback/httpapi/internal/stream"
)

// ConnContext is for the ConnContext field of [http.Server]; an application with
// a ConnContext of its own calls this one in it.
//
// It has two effects on downloads over HTTP/1, where conn is a *net.TCPConn or
// wraps one as *tls.Conn does. On Linux a client counts as making progress in the
// sense of [Options.IdleTimeout] if it acknowledges 64 to 300 KB in that time,
// depending on its TCP window updates. Elsewhere it must drain a third of the
// socket's send buffer, which can exceed 1 MB. And a client that times out is
// reset (RST) and not closed (FIN), which an HTTP/1.0 client takes for the end of
// the file.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return stream.ConnContext(ctx, conn)
}
