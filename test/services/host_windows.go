package services

import (
	"errors"
	"os"
	"syscall"
)

// Signals that Windows does not have; they reach nobody.
const (
	pauseSignal  = syscall.Signal(0)
	resumeSignal = syscall.Signal(0)
)

var errHost = errors.New("services run on Linux and macOS only")

func waitLock(*os.File) error { return errHost }

func kill(int, syscall.Signal) error { return errHost }

func detached(bool) *syscall.SysProcAttr { return nil }

func paused(int) (bool, error) { return false, errHost }
