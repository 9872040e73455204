//go:build unix

package client

import (
	"os"

	"golang.org/x/sys/unix"
)

// canReplaceFolders reports whether replaceFolder works on this platform.
const canReplaceFolders = true

// replaceFolder renames the directory from to the name of an empty directory, which it replaces, as
// rename(2) does and os.Root.Rename refuses. Both are names directly in at. It fails if the target
// is not empty.
func replaceFolder(at *os.Root, from, to string) error {
	dir, err := at.Open(".")
	if err != nil {
		return err
	}
	defer closeQuietly(dir)
	return unix.Renameat(int(dir.Fd()), from, int(dir.Fd()), to)
}
