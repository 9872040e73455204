//go:build !linux

package thumb

import (
	"errors"
	"syscall"
)

// set: only Linux limits what a process writes to. Elsewhere the server decodes itself.
func (limits) set() error { return errors.ErrUnsupported }

func alone() *syscall.SysProcAttr { return nil }
