//go:build !linux

package stream

import "net"

// setNotSentLowat is Linux only.
func setNotSentLowat(net.Conn) {}
