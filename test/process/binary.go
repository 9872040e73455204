// Package process runs the real binary in tests: start it, wait until it reports that it is ready,
// kill or stop it. It ends only processes that it has started.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// built holds the commands compiled by Build: the directory and the path by package.
var built struct {
	mu    sync.Mutex
	dir   string
	paths map[string]string
}

// Main runs the tests of a package, removes the commands compiled by Build, and exits. Call it from
// TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built.dir); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// directory is the environment variable that names a directory of prebuilt commands, which
// scripts/test.sh fills. Linking them again would cost each package seconds.
const directory = "SMARTDRIVE_TEST_BIN"

// Build compiles a command of this module as a static binary and returns its path. It compiles a
// command once per test process, and not at all if SMARTDRIVE_TEST_BIN has it. flags are passed to
// go build.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	name := filepath.Base(pkg)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if path := filepath.Join(os.Getenv(directory), name); filepath.IsAbs(path) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	built.mu.Lock()
	defer built.mu.Unlock()
	if path := built.paths[pkg]; path != "" {
		return path
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "smartdrive-test-") //nolint:usetesting // outlives this test: Main removes it
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.paths = dir, map[string]string{}
	}
	path := filepath.Join(built.dir, name)
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", path}, flags, []string{pkg})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	built.paths[pkg] = path
	return path
}

// Binary builds smartdrive itself.
func Binary(t testing.TB) string {
	t.Helper()
	return Build(t, "example.org/smartdrive/cmd/smartdrive")
}

// Exit returns the exit code of a finished command from the error of its Run or Wait, 0 for nil.
// Other errors are returned unchanged.
func Exit(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
