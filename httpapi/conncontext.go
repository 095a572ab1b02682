package httpapi

import (
	"context"
	"net"
	"net/http"
)

// ConnContext is for the ConnContext of the host's http.Server; a host that has
// one of its own calls this in it.
//
// It does two things for downloads over HTTP/1, where conn is a *net.TCPConn or
// has one below it, as a *tls.Conn does. On Linux, a client moves in the sense of
// [Options.IdleTimeout] if it takes 64 to 300 KB in that time, by how its own
// system tells of room; else it has to take a third of the socket's send
// buffer, which can be more than a megabyte. And a client that is cut has its
// connection reset. Else what is queued still arrives with an orderly end,
// which to one that speaks HTTP/1.0 is the end of the file.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	limitUnsent(innermost(conn))
	return context.WithValue(ctx, connKey{}, conn)
}

type connKey struct{}

// ownConn returns the connection that serves nothing but the request, if
// ConnContext has seen it. One of HTTP/2 serves others at the same time.
func ownConn(r *http.Request) net.Conn {
	if r.ProtoMajor != 1 {
		return nil
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
}

// innermost returns the connection below TLS.
func innermost(conn net.Conn) net.Conn {
	if outer, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return outer.NetConn()
	}
	return conn
}

// reset closes a connection in a way that no peer takes for an orderly end.
func reset(conn net.Conn) {
	inner := innermost(conn)
	if tcp, ok := inner.(interface{ SetLinger(int) error }); ok {
		tcp.SetLinger(0)
	}
	inner.Close()
}
