//go:build !linux

package thumb

import (
	"errors"
	"syscall"
)

// set fails: only Linux can limit written memory. Elsewhere the server itself decodes.
func (limits) set() error { return errors.ErrUnsupported }

// alone returns nil: no child runs on these systems.
func alone() *syscall.SysProcAttr { return nil }
