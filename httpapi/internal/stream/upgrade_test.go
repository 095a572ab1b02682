package stream

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbort_UpgradeIgnored has requests over HTTP/1.1 that ask for HTTP/2, as those of Java and
// of curl --http2, to a server that ignores it, and whose clients read nothing.
func TestAbort_UpgradeIgnored(t *testing.T) {
	for _, header := range []string{"", "HTTP2-Settings: \r\n"} {
		synctest.Test(t, func(t *testing.T) {
			conn, client := net.Pipe()
			defer client.Close()
			listener := make(pipeListener, 1)
			listener <- conn
			aborted := make(chan struct{})
			server := &http.Server{ConnContext: ConnContext, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(aborted)
				New(w, r, time.Second).Write(make([]byte, 1000))
				Abort(w, r)
			})}
			go server.Serve(listener)
			defer close(listener)
			fmt.Fprintf(client, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", header)
			select {
			case <-aborted:
			case <-time.After(time.Minute):
				t.Errorf("Abort blocks with %q", header)
			}
		})
	}
}

type pipeListener chan net.Conn

func (l pipeListener) Close() error   { return nil }
func (l pipeListener) Addr() net.Addr { return new(net.TCPAddr) }
func (l pipeListener) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
