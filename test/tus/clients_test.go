package tus

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/servicetest"
)

const tuspyService servicetest.Service = "tuspy"

// debianPython is the one that Debian's packages are for.
const debianPython = "/usr/bin/python3"

func TestTuspy(t *testing.T) {
	t.Parallel()
	if err := exec.Command(debianPython, "-c", "import tusclient").Run(); err != nil {
		servicetest.Missing(t, tuspyService, "Debian's package python3-tuspy is not installed")
	}
	d := newDrive(t)
	content := noise(11*mib+1, 60)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), debianPython, "clients/upload.py", d.url+"/tus/", d.token, file, "报告.bin").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := d.offset(strings.TrimSpace(string(out))); got != fmt.Sprint(len(content)) {
		t.Errorf("the offset is %s", got)
	}
	d.holds("/报告.bin", content)
}
