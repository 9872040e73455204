//go:build !unix

package client

import (
	"errors"
	"os"
)

// draftsFolders is false where a folder does not replace an empty one.
const draftsFolders = false

func replaceFolder(*os.Root, string, string) error { return errors.ErrUnsupported }
