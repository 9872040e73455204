//go:build !linux

package client

import (
	"errors"
	"os"
)

func syncTogether(*os.Root) error { return errors.ErrUnsupported }
