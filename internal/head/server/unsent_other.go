//go:build !linux

package server

import "net"

// boundUnsent does nothing where nothing is known of the system.
func boundUnsent(net.Conn) error { return nil }
