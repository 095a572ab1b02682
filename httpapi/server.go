package httpapi

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"example.com/canvasback/httpapi/internal/stream"
)

// ConfigureServer sets the fields of s that are zero to values that suit the
// API:
//
//	ReadHeaderTimeout  10s
//	ReadTimeout        5m      a body of 50 MiB over a slow connection
//	WriteTimeout       6m      downloads extend it while data flows
//	IdleTimeout        2m
//	MaxHeaderBytes     64 KiB
//	HTTP2              100 streams, receive buffers of 256 KiB, WriteByteTimeout and SendPingTimeout 1m, PingTimeout 2m
//
// It adds [ConnContext] to the ConnContext of s, and makes [http.Server.Shutdown] end
// streams of changes at once. The API itself ends a request whose
// body arrives more slowly than [Limits.BodyRate].
func ConfigureServer(s *http.Server) {
	s.ReadHeaderTimeout = cmp.Or(s.ReadHeaderTimeout, 10*time.Second)
	s.ReadTimeout = cmp.Or(s.ReadTimeout, 5*time.Minute)
	s.WriteTimeout = cmp.Or(s.WriteTimeout, 6*time.Minute)
	s.IdleTimeout = cmp.Or(s.IdleTimeout, 2*time.Minute)
	s.MaxHeaderBytes = cmp.Or(s.MaxHeaderBytes, 64<<10)
	s.HTTP2 = cmp.Or(s.HTTP2, new(http.HTTP2Config))
	s.HTTP2.MaxConcurrentStreams = cmp.Or(s.HTTP2.MaxConcurrentStreams, 100) // each has a header of MaxHeaderBytes
	s.HTTP2.MaxReceiveBufferPerConnection = cmp.Or(s.HTTP2.MaxReceiveBufferPerConnection, 256<<10)
	s.HTTP2.MaxReceiveBufferPerStream = cmp.Or(s.HTTP2.MaxReceiveBufferPerStream, 256<<10)
	s.HTTP2.WriteByteTimeout = cmp.Or(s.HTTP2.WriteByteTimeout, time.Minute) // deadlines of a stream do not end a write to its connection
	s.HTTP2.SendPingTimeout = cmp.Or(s.HTTP2.SendPingTimeout, time.Minute)   // or a vanished client holds streams for 15 minutes
	s.HTTP2.PingTimeout = cmp.Or(s.HTTP2.PingTimeout, 2*time.Minute)         // the ping may wait behind data for a slow client
	shutdown := make(chan struct{})
	s.RegisterOnShutdown(sync.OnceFunc(func() { close(shutdown) }))
	connContext := s.ConnContext
	if connContext == nil {
		connContext = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	}
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return ConnContext(stream.WithShutdown(connContext(ctx, conn), shutdown), conn)
	}
}

// ConnContext is for the ConnContext field of [http.Server]; [ConfigureServer]
// sets it. An application with a ConnContext of its own may also call it there.
//
// It has these effects on downloads over HTTP/1, if conn is a *net.TCPConn or wraps
// one as *tls.Conn does:
//
//   - On Linux a client makes progress if it acknowledges 64 to 300 KB per
//     [Limits.IdleTimeout], depending on its TCP window updates. Otherwise it must
//     drain a third of the socket's send buffer, which can exceed 1 MB.
//   - On Linux a client that has vanished loses its connection after [Limits.IdleTimeout], also
//     that of a stream of changes, which can otherwise last for 15 minutes.
//   - The connection of a client that times out is reset (RST) and not closed (FIN). So is
//     that of an aborted download behind middleware without Unwrap and Hijack.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return stream.ConnContext(ctx, conn)
}
