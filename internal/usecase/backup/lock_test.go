package backup_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/backup"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A run during another run or a restore changes nothing and gives the reason; the first one
// completes.
func TestConcurrentRunsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	r.backup(t, dest, r.options())
	r.put(t, "/c", "one more file")
	inside, goOn := make(chan struct{}), make(chan struct{})
	opt := r.options()
	opt.Now = func() time.Time { // called in the middle of a run
		close(inside)
		<-goOn
		return r.Clock.Now()
	}
	first := make(chan error, 1)
	go func() {
		_, err := backup.Run(context.WithoutCancel(t.Context()), r.DB, r.Dir, dest, opt)
		first <- err
	}()
	<-inside
	before := files(t, dest)
	_, err := backup.Run(t.Context(), r.DB, r.Dir, dest, r.options())
	if !drive.IsKind(err, drive.WrongState) || !strings.Contains(err.Error(), "is running") {
		t.Errorf("a second run: %v", err)
	}
	to := t.TempDir()
	if _, err := backup.Restore(t.Context(), dest, site(to), false, r.options()); err == nil || !strings.Contains(err.Error(), "is running") {
		t.Errorf("a restore: %v", err)
	}
	if after := files(t, dest); !maps.Equal(before, after) {
		t.Errorf("the backup was %v and is %v", before, after)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	r.backup(t, dest, r.options()) // the lock is free again
	out, err := backup.Restore(t.Context(), dest, site(to), false, r.options())
	if err != nil || out.Blobs != 3 || len(out.Missing) > 0 {
		t.Errorf("restored %+v, %v", out, err)
	}
}

// A copy of another database is not published, and nothing is deleted.
func TestDatabaseOfOtherInstallationIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	r.backup(t, dest, r.options())
	before := files(t, dest)
	opt := r.options()
	opt.Now = func() time.Time {
		r.exec(t, `UPDATE meta SET value = 'another' WHERE name = 'installation'`)
		return r.Clock.Now()
	}
	if _, err := backup.Run(t.Context(), r.DB, r.Dir, dest, opt); err == nil || !strings.Contains(err.Error(), `installation "another"`) {
		t.Errorf("Run: %v", err)
	}
	after := files(t, dest)
	maps.DeleteFunc(after, func(name string, _ int64) bool { return strings.Contains(name, ".new") })
	if !maps.Equal(before, after) {
		t.Errorf("the backup was %v and is %v", before, after)
	}
}

// A broken backup that an older release published after two concurrent runs is not restored.
func TestEmptyBackupIsNotRestored(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	good := r.backup(t, dest, r.options()).Manifest
	for name, spoil := range map[string]func(m *backup.Manifest){
		"a database of no bytes": func(m *backup.Manifest) {
			m.Database, m.Size, m.SHA256 = "empty.db", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		},
		"no installation":      func(m *backup.Manifest) { m.Installation = "" },
		"another installation": func(m *backup.Manifest) { m.Installation = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := t.TempDir(), t.TempDir()
			if err := os.CopyFS(from, os.DirFS(dest)); err != nil {
				t.Fatal(err)
			}
			m := good
			spoil(&m)
			text, _ := json.Marshal(m)
			write(t, filepath.Join(from, "manifest.json"), string(text))
			write(t, filepath.Join(from, "empty.db"), "")
			if _, err := backup.Restore(t.Context(), from, site(to), true, r.options()); err == nil || !strings.Contains(err.Error(), "installation") {
				t.Errorf("Restore: %v", err)
			}
			if _, err := os.Stat(filepath.Join(to, "smartdrive.db")); err == nil {
				t.Error("there is a database")
			}
		})
	}
}
