//go:build !linux || !(amd64 || arm64)

package thumb

import "errors"

// canConfine returns false: there are no helpers on systems that cannot confine them.
func canConfine() bool { return false }

// confine always fails with errors.ErrUnsupported: helpers are confined on Linux only.
func confine(limits, string, []string) error { return errors.ErrUnsupported }
