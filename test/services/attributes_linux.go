package services

import "golang.org/x/sys/unix"

// hasAttributes reports whether the file system of dir stores extended attributes.
func hasAttributes(dir string) bool {
	return unix.Setxattr(dir, "user.smartdrive", []byte("1"), 0) == nil
}
