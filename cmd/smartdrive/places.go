package main

import (
	"fmt"

	"golang.org/x/text/unicode/norm"
)

// places are those that files of one command have got, each with what it was. As for cp, none
// replaces what the same command has just made.
type places map[string]string

// take gives a place to what, unless something else has it: two patterns may name the same file.
func (p places) take(name, what string) error {
	name = norm.NFC.String(name) // as the server keeps it
	if first, ok := p[name]; ok && first != what {
		return fmt.Errorf("%s has got its place: give it another one by a command of its own", first)
	}
	p[name] = what
	return nil
}
