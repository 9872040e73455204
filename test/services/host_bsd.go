//go:build unix && !linux

package services

import "syscall"

// detached starts the process in its own session; bound is not supported.
func detached(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// paused returns true: the state of threads is not checked on this system.
func paused(int) (bool, error) { return true, nil }
