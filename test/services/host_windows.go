package services

import (
	"errors"
	"os"
	"syscall"
)

// Signals that Windows does not have; they are never sent.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)

// errHost reports an unsupported system.
var errHost = errors.New("services run on Linux and macOS only")

// waitLock is not supported.
func waitLock(*os.File) error { return errHost }

// kill is not supported.
func kill(int, syscall.Signal) error { return errHost }

// detached returns nil: services do not run on Windows.
func detached(bool) *syscall.SysProcAttr { return nil }

// paused is not supported.
func paused(int) (bool, error) { return false, errHost }
