//go:build unix

package client

import (
	"syscall"
	"testing"
)

// makeSpecial creates special files (neither file, folder nor link) and returns their number.
func makeSpecial(t *testing.T, path string) int {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return 1
}
