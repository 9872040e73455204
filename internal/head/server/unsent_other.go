//go:build !linux

package server

import (
	"net"
	"syscall"
)

// unsent is how many bytes are copied to a connection in two steps.
const unsent = 256 << 10

// boundUnsent does nothing: elsewhere the kernel's own bound is what there is.
func boundUnsent(net.Conn) (syscall.RawConn, error) { return nil, nil }

// roomOf is never asked.
func roomOf(int) int { return leastRoom }
