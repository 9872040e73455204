package services

import "golang.org/x/sys/unix"

// hasAttributes says whether the file system stores extended attributes.
func hasAttributes(dir string) bool {
	return unix.Setxattr(dir, "user.smartdrive", []byte("1"), 0) == nil
}
