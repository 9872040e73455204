package main

import (
	"fmt"

	"golang.org/x/text/unicode/norm"
)

// usedTargets maps each target path of a command to the source that was put there. As with cp, a
// command does not replace what it has just created.
type usedTargets map[string]string

// claim assigns a target to a source. It fails if another source has the target; the same source
// may claim it again, because two patterns may match one file.
func (p usedTargets) claim(name, what string) error {
	name = norm.NFC.String(name) // the server normalizes names
	if first, ok := p[name]; ok && first != what {
		return fmt.Errorf("%s has got its place: give it another one by a command of its own", first)
	}
	p[name] = what
	return nil
}
