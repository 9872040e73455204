//go:build unix && !linux

package services

import "syscall"

func detached(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func paused(int) (bool, error) { return true, nil }
