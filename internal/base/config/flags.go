package config

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// AddFlags adds a flag for each setting. The flags accept every text; Load checks the values.
func AddFlags(flags *pflag.FlagSet) {
	for i := range settings {
		s := &settings[i]
		flags.Var(&flagValue{text: s.def, form: s.form, list: s.list}, s.name, s.help)
	}
}

// flagValue implements pflag.Value. The flag of a list may be repeated.
type flagValue struct {
	text, form string
	list, set  bool
}

// String returns the value as it was written.
func (v *flagValue) String() string { return v.text }

// Type returns the form of a value, for the help.
func (v *flagValue) Type() string { return v.form }

// Set stores the text of the flag and always returns nil; Load checks it. If a list was set before,
// s is appended to it.
func (v *flagValue) Set(s string) error {
	if v.list && v.set {
		s = v.text + "," + s
	}
	v.text, v.set = s, true
	return nil
}

// FlagError returns err, or for an unknown flag an error that suggests the most similar one.
func FlagError(err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) && missing.GetSpecifiedShortnames() == "" {
		return unknown("flag", "--", missing.GetSpecifiedName())
	}
	return err
}

// unknown returns the error for an unknown name, which suggests the nearest setting if one is near.
// what is the sort of name ("flag", "key"), dashes is what precedes it in the text.
func unknown(what, dashes, name string) error {
	if near := nearest(name); near != nil {
		return fmt.Errorf("there is no %s %s%s; did you mean %s%s?", what, dashes, name, dashes, near.name)
	}
	return fmt.Errorf("there is no %s %s%s", what, dashes, name)
}

// nearest returns the setting with the most similar name; nil if none is similar.
func nearest(name string) *setting {
	var best *setting
	least := max(2, len(name)/3) + 1
	if len(name) > 40 { // longer than any by far
		return nil
	}
	for i := range settings {
		if d := distance(name, settings[i].name); d < least {
			best, least = &settings[i], d
		}
	}
	return best
}

// distance returns the Levenshtein distance of a and b: how many bytes must be inserted, deleted or
// replaced to turn one into the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
