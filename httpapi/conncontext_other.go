//go:build !linux

package httpapi

import "net"

// limitUnsent is for Linux, which wakes a writer late without it.
func limitUnsent(net.Conn) {}
