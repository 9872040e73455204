//go:build linux

package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/testkit/usertest"
)

// stranger is a user and group id that owns the installation, and is not root's.
const stranger = 12345

// A command that root runs on a stopped server leaves nothing that the server's user cannot open.
func TestRootCommandKeepsFileOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("it takes root")
	}
	cfg := testConfig(t)
	a, err := Open(t.Context(), cfg, silent)
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "chown", "-R", "12345:12345", cfg.Data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, done, err := ConnectControl(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ask(t, c, "GET", "/api/v1/admin/status", nil)
	if err = errors.Join(err, done()); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(cfg.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != stranger || st.Gid != stranger {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The status of a stopped server is read without a change to the data directory: names, owners,
// modes, times and bytes stay.
func TestStatusOfStoppedServerWritesNothing(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	a, err := Open(t.Context(), cfg, silent)
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, cfg.Data)
	s, ok, err := StoppedStatus(t.Context(), cfg, silent)
	if err != nil || !ok || s.Installation == "" || s.Mode != string(config.Embedded) {
		t.Errorf("%+v, %v, %v", s, ok, err)
	}
	if diff := cmp.Diff(before, snapshot(t, cfg.Data)); diff != "" {
		t.Errorf("the data directory has changed (-before +after):\n%s", diff)
	}
	if a, err = Open(t.Context(), cfg, silent); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, ok, err := StoppedStatus(t.Context(), cfg, silent); ok || err != nil {
		t.Errorf("of a running server: %v, %v", ok, err)
	}
}

// snapshot returns owner, mode, modification time and digest of each file below a directory, by
// path.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		all[path] = fmt.Sprint(st.Uid, st.Gid, info.Mode(), info.ModTime().UnixNano())
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			all[path] += fmt.Sprintf(" %x", sha256.Sum256(b))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A start that fails at a file of another user names the chown command that helps.
func TestAStartNamesTheChownThatHelps(t *testing.T) {
	t.Parallel()
	if usertest.RunUnprivileged(t) { // root may open everything
		return
	}
	cfg := testConfig(t)
	a, err := Open(t.Context(), cfg, silent)
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(cfg.Data, "installation")
	if err := os.Chmod(mark, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg, silent); err == nil || !strings.Contains(err.Error(), "chown -R") || !strings.Contains(err.Error(), mark) {
		t.Errorf("it says %v", err)
	}
}
