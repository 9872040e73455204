//go:build !linux || !(amd64 || arm64)

package thumb

import "errors"

// canConfine: there are no helpers where nothing can be taken from them.
func canConfine() bool { return false }

func confine(limits, string, []string) error { return errors.ErrUnsupported }
