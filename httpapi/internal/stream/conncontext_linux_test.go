package stream

import (
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
)

// A peer that has vanished acknowledges nothing.
func TestNew_LimitsTimeWithoutAcknowledgment(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	is.NoErr(err)
	defer conn.Close()
	r := httptest.NewRequestWithContext(ConnContext(t.Context(), conn), http.MethodGet, "/", nil)
	New(httptest.NewRecorder(), r, 5*time.Second)
	raw, err := conn.(*net.TCPConn).SyscallConn()
	is.NoErr(err)
	is.NoErr(raw.Control(func(fd uintptr) {
		value, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
		is.NoErr(err)
		is.Equal(value, 5001)
	}))
}
