package stream

import (
	"context"
	"net"
	"net/http"
)

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
