package stream

import (
	"net"
	"syscall"
)

const (
	tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT, which package syscall lacks

	// maxNotSent is how many unsent bytes the kernel queues. It wakes a blocked
	// writer when less than half of them are left.
	maxNotSent = 128 << 10
)

// setNotSentLowat limits what the kernel queues of conn. It does nothing if conn
// is not a socket.
func setNotSentLowat(conn net.Conn) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, maxNotSent)
	})
}
