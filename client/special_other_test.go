//go:build !unix

package client

import "testing"

// makeSpecial makes nothing: there are no such files here.
func makeSpecial(*testing.T, string) int { return 0 }
