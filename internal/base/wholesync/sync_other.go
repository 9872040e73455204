//go:build !linux

package wholesync

import (
	"errors"
	"os"
)

// Can says no: only Linux is asked to sync a whole file system.
func Can(*os.File) bool { return false }

// Reaches is not asked.
func Reaches(*os.File, os.FileInfo) bool { return false }

// Sync is not asked for.
func Sync(*os.File) error { return errors.ErrUnsupported }
