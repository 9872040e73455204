// Package release_test makes a release for this platform and installs it.
package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/depth"
)

// root is the checkout.
const root = "../.."

// command runs a command in a directory of the checkout, logs what it says, and fails the test if
// it fails.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = filepath.Join(root, dir), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s %s\n%s", name, strings.Join(args, " "), out)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// needs skips the test unless the programs are installed.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

// Two versions of the packages, built without the profile, are installed and upgraded, and the
// image is run; "make deep PARTS=release" does it with the whole release.
func TestReleaseCanBeInstalled(t *testing.T) {
	t.Parallel()
	depth.Deep(t)
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("packages are installed in namespaces, which needs root on Linux")
	}
	needs(t, "git", "dpkg", "unshare", "setpriv", "python3")
	command(t, "scripts/release", nil, "go", "test", "-trimpath", ".")
	dir := t.TempDir()
	old, latest := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	var key []string
	if _, err := exec.LookPath("minisign"); err == nil {
		command(t, ".", nil, "minisign", "-G", "-W", "-p", filepath.Join(dir, "key.pub"), "-s", filepath.Join(dir, "key"))
		key = []string{"SMARTDRIVE_MINISIGN_KEY_FILE=" + filepath.Join(dir, "key")}
	}
	tool := filepath.Join(dir, "release")
	command(t, "scripts/release", nil, "go", "build", "-trimpath", "-o", tool, ".")
	for version, out := range map[string]string{"0.0.0-test.1": old, "0.0.0-test.2": latest} {
		command(t, ".", key, tool, "-version", version, "-out", out, "-platforms", "linux/"+runtime.GOARCH, "-dirty", "-pgo=false")
	}
	command(t, ".", nil, "sh", "-c", `cd "$1" && sha256sum --check SHA256SUMS`, "sh", latest)
	if key != nil {
		command(t, ".", nil, "minisign", "-V", "-p", filepath.Join(dir, "key.pub"), "-m", filepath.Join(latest, "SHA256SUMS"))
	}
	said := command(t, "scripts/release", nil, "./try.sh", latest, old, "deb", "image")
	for _, part := range []string{"PASS deb", "PASS image"} {
		if !strings.Contains(said, part) && !strings.Contains(said, "SKIP everything") {
			t.Errorf("it does not say %s", part)
		}
	}
}
