//go:build !linux

package sqldb

// fileSystem is that of SQLite.
func fileSystem() (string, error) { return "", nil }
