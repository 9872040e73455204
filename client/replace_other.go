//go:build !unix

package client

import (
	"errors"
	"os"
)

// canReplaceFolders reports whether replaceFolder works on this platform.
const canReplaceFolders = false

// replaceFolder is not supported: renaming a directory does not replace an empty one here.
func replaceFolder(*os.Root, string, string) error { return errors.ErrUnsupported }
