package httpapi

import (
	"net"
	"syscall"
)

const (
	tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT, which the package syscall lacks

	// maxUnsent is how much the kernel takes that it cannot send yet. It wakes
	// a writer when less than half of that is left.
	maxUnsent = 128 << 10
)

// limitUnsent bounds what the kernel queues. A connection of another kind, or
// one that hides what it is, stays as it is.
func limitUnsent(conn net.Conn) {
	inner, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := inner.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, maxUnsent)
	})
}
