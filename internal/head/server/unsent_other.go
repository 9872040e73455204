//go:build !linux

package server

import (
	"net"
	"syscall"
)

// unsent is twice the size of a copy buffer.
const unsent = 256 << 10

// boundUnsent does nothing: other systems have no such limit.
func boundUnsent(net.Conn) (syscall.RawConn, error) { return nil, nil }

// roomOf is not called on this system.
func roomOf(int) int { return minRoom }
