//go:build !linux

package wholesync

import (
	"errors"
	"os"
)

// Supported returns false: only Linux can sync a whole file system reliably.
func Supported(*os.File) bool { return false }

// SameFileSystem returns false.
func SameFileSystem(*os.File, os.FileInfo) bool { return false }

// Sync always fails.
func Sync(*os.File) error { return errors.ErrUnsupported }
