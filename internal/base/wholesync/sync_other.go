//go:build !linux

package wholesync

import (
	"errors"
	"os"
)

// Supported returns false: only Linux can sync a whole file system reliably.
func Supported(*os.File) bool { return false }

// SameFileSystem returns false: on this platform whole file systems cannot be synced.
func SameFileSystem(*os.File, os.FileInfo) bool { return false }

// Sync fails with errors.ErrUnsupported; the caller must sync single files.
func Sync(*os.File) error { return errors.ErrUnsupported }
