//go:build !linux

package sqldb

// fileSystem is SQLite's own, which has no name here.
func fileSystem() (string, error) { return "", nil }
