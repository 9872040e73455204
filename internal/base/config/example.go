package config

import (
	"fmt"
	"strings"
)

// packagedData is the data directory of the packages and of the systemd unit.
const packagedData = "/var/lib/smartdrive"

// Example returns the text of deploy/config.yaml, the settings file of the packages: every key with
// its meaning and default, as comments. Only data is set.
func Example() string {
	var b strings.Builder
	b.WriteString(`# Settings of SmartDrive. Remove the "#" before a key to set it; then: systemctl restart smartdrive
# A variable SMARTDRIVE_* overrides its key. Shown are the defaults, or the form of a value where there is none.
`)
	for i := range settings {
		s := &settings[i]
		if s.noKey {
			continue
		}
		b.WriteString("\n")
		writeComment(&b, s.help)
		switch {
		case s.name == "data":
			fmt.Fprintf(&b, "data: %s\n", packagedData)
		case s.def != "":
			fmt.Fprintf(&b, "#%s: %s\n", s.name, quoteYAML(s.def))
		default:
			fmt.Fprintf(&b, "#%s: %s\n", s.name, quoteYAML(s.form))
		}
	}
	return b.String()
}

// writeComment writes text as lines of a comment, wrapped at 100 columns.
func writeComment(b *strings.Builder, text string) {
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 100 {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// quoteYAML returns a value as YAML reads it as text; durations, sizes and words need no quotes.
func quoteYAML(value string) string {
	if strings.ContainsAny(value, ":,|*#") {
		return `"` + value + `"`
	}
	return value
}
