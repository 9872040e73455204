package docs

import (
	"bytes"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/test/process"
)

const clusterPage = "docs/cluster.md"

// refusal is a row "| `flags` | `text` |".
var refusal = regexp.MustCompile("(?m)^\\| `(--[^`]*)` \\| `([^`]+)` \\|$")

// The page quotes the server's errors for settings that exclude each other.
func TestRefusalsAreTheseWords(t *testing.T) {
	t.Parallel()
	rows := refusal.FindAllStringSubmatch(documents(t)[clusterPage], -1)
	if len(rows) < 6 {
		t.Fatalf("only %d refusals were found: does this test still read %s?", len(rows), clusterPage)
	}
	binary := process.Binary(t)
	for _, row := range rows {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"serve"}, strings.Fields(row[1])...)...)
		cmd.Env = append(process.Environ(), "HOME="+t.TempDir())
		var said bytes.Buffer
		cmd.Stderr = &said
		code := 0
		if err := cmd.Run(); err != nil {
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok {
				t.Fatal(err)
			}
			code = exit.ExitCode()
		}
		if code != 2 || !strings.HasPrefix(said.String(), "smartdrive: "+row[2]) {
			t.Errorf("serve %s: exit code %d\n%s\ninstead of\n%s", row[1], code, said.String(), row[2])
		}
	}
}
