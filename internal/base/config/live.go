package config

import (
	"fmt"
	"strings"
)

// LiveSetting is a setting that administrators may change while the server runs.
type LiveSetting struct {
	Name    string
	Form    string // description of the allowed values
	Help    string
	Default string  // "": none
	Given   *string // value from a flag, variable or the file, which administrators cannot override; nil: not given
}

// LiveSettings returns the settings that can be changed while the server runs, in the order of the
// help.
func (c *Config) LiveSettings() []LiveSetting {
	var all []LiveSetting
	for i := range settings {
		if s := &settings[i]; s.live != "" {
			l := LiveSetting{Name: s.name, Form: s.live, Help: s.help, Default: s.def}
			if v, ok := c.given[s.name]; ok {
				l.Given = &v
			}
			all = append(all, l)
		}
	}
	return all
}

// With returns the configuration with another value of a setting that can be changed while the
// server runs. If the operator has given a value, With returns c unchanged. The error for a wrong
// value says what is allowed.
func (c Config) With(name, value string) (Config, error) {
	s := find(name)
	if s == nil || s.live == "" {
		return Config{}, fmt.Errorf("%q is not a setting that can be changed while the server runs", name)
	}
	if _, ok := c.given[name]; ok {
		return c, nil
	}
	if err := s.set(&c, strings.TrimSpace(value)); err != nil {
		return Config{}, err
	}
	return c, nil
}
