package stream

import (
	"math"
	"net"
	"syscall"
	"time"
)

const (
	tcpUserTimeout  = 18 // TCP_USER_TIMEOUT and TCP_NOTSENT_LOWAT, which package syscall lacks
	tcpNotSentLowat = 25

	// maxNotSent is how many unsent bytes the kernel queues. It wakes a blocked
	// writer when less than half of them are left.
	maxNotSent = 128 << 10
)

// setNotSentLowat limits what the kernel queues of conn.
func setNotSentLowat(conn net.Conn) { setOption(conn, tcpNotSentLowat, maxNotSent) }

// setUserTimeout limits how long the peer of conn may acknowledge nothing: one that has vanished
// would hold a stream of events for 15 minutes.
func setUserTimeout(conn net.Conn, timeout time.Duration) {
	setOption(conn, tcpUserTimeout, int(min(timeout.Milliseconds()+1, math.MaxInt32)))
}

// setOption does nothing if conn is not a socket.
func setOption(conn net.Conn, option, value int) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, option, value)
	})
}
