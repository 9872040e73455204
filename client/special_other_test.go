//go:build !unix

package client

import "testing"

// makeSpecial creates nothing, because this platform has no special files.
func makeSpecial(*testing.T, string) int { return 0 }
