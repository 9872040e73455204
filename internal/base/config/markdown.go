package config

import (
	"fmt"
	"strings"
)

// Markdown returns the text of docs/configuration.md, generated from the table of settings; a test
// compares both.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Configuration of the server

` + "`smartdrive serve`" + ` needs no configuration. Each setting can be given as a flag, as an environment variable, or in a YAML file that
` + "`--config`" + ` names. A flag overrides a variable, a variable overrides the file, the file overrides the default. An unknown flag or key and
a value that is not allowed are refused. An empty variable counts as not set.

` + "```yaml" + `
# smartdrive.yaml: the keys are the names of the flags
listen: 127.0.0.1:8320
base-url: https://example.org/drive
trusted-proxies: [127.0.0.1, 10.0.0.0/8]
default-quota: 50GiB
` + "```" + `

A DURATION is written as ` + "`100ms`, `30s`, `15m`, `168h` or `30d`" + `, a SIZE as a number of bytes or with ` + "`KiB`, `MiB`, `GiB` or `TiB`" + `. A flag that
takes several values accepts them separated by commas, or can be given several times.

Everybody who can list the processes of a machine sees their flags. Set a value that contains a password by its variable, or put it into a file
and name the file in the variable with ` + "`_FILE`" + ` appended: ` + "`SMARTDRIVE_DB_FILE=/run/secrets/db`" + `. This works for ` + secretFlags() + `.

This page is generated from the table in ` + "`internal/base/config/settings.go`" + `.

| Flag | Variable | Default | Meaning |
|---|---|---|---|
`)
	for i := range settings {
		s := &settings[i]
		def := ""
		if s.def != "" {
			def = "`" + s.def + "`"
		}
		fmt.Fprintf(&b, "| `--%s %s` | `%s` | %s | %s |\n", s.name, strings.ReplaceAll(s.form, "|", `\|`), s.variable(), def, strings.ReplaceAll(s.help, "|", `\|`))
	}
	return b.String()
}

// secretFlags lists the flags whose values can be read from a file.
func secretFlags() string {
	var all []string
	for i := range settings {
		if settings[i].secret {
			all = append(all, "`--"+settings[i].name+"`")
		}
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}
