//go:build !linux

package thumb

import (
	"errors"
	"syscall"
)

// set fails: only Linux can limit written memory. Elsewhere the server itself decodes.
func (limits) set() error { return errors.ErrUnsupported }

// childAttr returns nil: no child runs on these systems.
func childAttr() *syscall.SysProcAttr { return nil }
