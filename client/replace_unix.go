//go:build unix

package client

import (
	"os"

	"golang.org/x/sys/unix"
)

// draftsFolders says whether replaceFolder can be relied on.
const draftsFolders = true

// replaceFolder renames a folder to the name of an empty one, which it replaces: rename(2). A
// Root refuses that. Neither name leads out of at.
func replaceFolder(at *os.Root, from, to string) error {
	dir, err := at.Open(".")
	if err != nil {
		return err
	}
	defer letGo(dir)
	return unix.Renameat(int(dir.Fd()), from, int(dir.Fd()), to)
}
