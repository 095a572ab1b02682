package stream

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Abort resets the connection of a response, or the stream over HTTP/2, so that
// the response does not look complete. Call it before panic(http.ErrAbortHandler).
// The panic alone is not enough if a middleware recovers it, or for an HTTP/1.0
// client, which takes FIN for the end of the body.
//
// Behind a ResponseWriter with neither Unwrap nor Hijack, Abort has no effect over
// HTTP/2 or without [ConnContext].
func Abort(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		if conn := hijack(w); conn != nil {
			resetConn(conn)
			return
		}
		if conn := http1Conn(r); conn != nil && r.Context().Err() == nil {
			resetConn(conn) // it still serves this request
			return
		}
	}
	http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
}

// IsNetHTTP reports whether an [http.Server] serves r. Others may not recover
// http.ErrAbortHandler, which then would end the process.
func IsNetHTTP(r *http.Request) bool {
	return r.Context().Value(http.ServerContextKey) != nil
}

// Interrupt resets the connection of a response, or the stream over HTTP/2, from
// another goroutine than the handler's. A blocked write returns. Over HTTP/1
// without [ConnContext] the client may receive what is queued and FIN; the handler
// must then call [Abort].
func Interrupt(w http.ResponseWriter, r *http.Request) {
	if conn := http1Conn(r); conn != nil {
		resetConn(conn)
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
}

// hijack takes over the connection of w, or returns nil. It tries the innermost
// ResponseWriter first, that of the server. An [http.ResponseController] tries the
// outermost, and gin's returns an error once the body has begun.
func hijack(w http.ResponseWriter) net.Conn {
	if outer, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		if conn := hijack(outer.Unwrap()); conn != nil {
			return conn
		}
	}
	if hijacker, ok := w.(http.Hijacker); ok {
		if conn, _, err := hijacker.Hijack(); err == nil {
			return conn
		}
	}
	return nil
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

// innermost returns the ResponseWriter of the server, or of a middleware that hides
// it.
func innermost(w http.ResponseWriter) http.ResponseWriter {
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
func http1Conn(r *http.Request) net.Conn {
	if r.ProtoMajor != 1 {
		return nil
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
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
