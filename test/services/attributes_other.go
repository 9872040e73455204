//go:build !linux

package services

func hasAttributes(string) bool { return false }
