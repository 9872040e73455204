//go:build !linux

package wholesync

import (
	"errors"
	"os"
)

// Can returns false: only Linux can sync a whole file system reliably.
func Can(*os.File) bool { return false }

// Reaches returns false.
func Reaches(*os.File, os.FileInfo) bool { return false }

// Sync always fails.
func Sync(*os.File) error { return errors.ErrUnsupported }
