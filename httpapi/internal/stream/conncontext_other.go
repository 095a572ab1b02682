//go:build !linux

package stream

import (
	"net"
	"time"
)

// setNotSentLowat is Linux only.
func setNotSentLowat(net.Conn) {}

func setUserTimeout(net.Conn, time.Duration) {}
