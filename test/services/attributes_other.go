//go:build !linux

package services

// hasAttributes returns false: extended attributes are used on Linux only.
func hasAttributes(string) bool { return false }
