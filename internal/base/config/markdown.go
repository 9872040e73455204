package config

import (
	"fmt"
	"strings"
)

// Markdown returns docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Configuration of the server

` + "`smartdrive serve`" + ` needs no configuration. What can be set is set by a flag, by a variable of the environment, or in a YAML file that
` + "`--config`" + ` names; a flag beats a variable, a variable beats the file, the file beats the default. An unknown flag or key is
refused, and so is a value that is not allowed; a variable that is empty counts as not set.

` + "```yaml" + `
# smartdrive.yaml: the keys are the names of the flags
listen: 127.0.0.1:8320
base-url: https://example.org/drive
trusted-proxies: [127.0.0.1, 10.0.0.0/8]
default-quota: 50GiB
` + "```" + `

A DURATION is written as ` + "`100ms`, `30s`, `15m`, `168h` or `30d`" + `, a SIZE as a number of bytes or with ` + "`KiB`, `MiB`, `GiB` or `TiB`" + `. A flag with
several values takes them with commas between them, or is given several times.

Whoever lists the processes of a machine sees their flags: give what holds a password by its variable, or put it into a file and name that
in the variable with ` + "`_FILE`" + ` behind its name, as in ` + "`SMARTDRIVE_DB_FILE=/run/secrets/db`" + ` (for ` + "`--db`, `--redis`, `--kafka`, `--blobs` and `--export-bucket`" + `).

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
