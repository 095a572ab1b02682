package stream

import (
	"context"
	"net"
	"net/http"
)

// ConnContext is for the ConnContext field of [http.Server]. It has two effects
// on responses over HTTP/1, if conn is a *net.TCPConn or wraps one as *tls.Conn
// does:
//
//   - On Linux a client makes progress if it acknowledges 64 to 300 KB per idle
//     timeout, depending on its TCP window updates. Otherwise it must drain a
//     third of the send buffer, which can exceed 1 MB.
//   - A client that times out is reset (RST) and not closed (FIN), which an
//     HTTP/1.0 client takes for the end of the file.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	setNotSentLowat(netConn(conn))
	return context.WithValue(ctx, connKey{}, conn)
}

type connKey struct{}

// http1Conn returns the connection that serves r and nothing else, or nil. It is
// nil for HTTP/2, whose connections are shared, and without [ConnContext].
func http1Conn(r *http.Request) net.Conn {
	if r.ProtoMajor != 1 {
		return nil
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
}

// netConn returns the connection below TLS.
func netConn(conn net.Conn) net.Conn {
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return outer.NetConn()
	}
	return conn
}
