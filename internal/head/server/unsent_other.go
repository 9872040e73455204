//go:build !linux

package server

import (
	"net"
	"syscall"
)

// unsent is twice the size of a copy buffer.
const unsent = 256 << 10

// boundUnsent does nothing: the limit of unsent bytes is set only on Linux. The nil connection
// means that await does not wait.
func boundUnsent(net.Conn) (syscall.RawConn, error) { return nil, nil }

// roomOf returns minRoom. It is not called on this system, because boundUnsent returns nil.
func roomOf(int) int { return minRoom }
