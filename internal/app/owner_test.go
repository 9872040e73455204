//go:build linux

package app

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"smartdrive/internal/testkit/usertest"
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
