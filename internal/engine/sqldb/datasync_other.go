//go:build !linux

package sqldb

// fileSystem returns "", the default file system.
func fileSystem() (string, error) { return "", nil }
