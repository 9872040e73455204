//go:build unix

package demo

import (
	"io/fs"
	"syscall"
)

// onDisk is how many bytes the file system holds for a file, holes not counted.
func onDisk(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
