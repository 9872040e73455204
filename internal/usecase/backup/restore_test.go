package backup_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/backup"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Destinations that a backup or restore refuses.
func TestRunRefusesWrongDestinations(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	r.backup(t, dest, r.options())
	back := func(dir string) func(*testing.T) error {
		return func(t *testing.T) error {
			_, err := backup.Run(t.Context(), r.DB, r.Dir, dir, r.options())
			return err
		}
	}
	restore := func(prepare func(t *testing.T, from, to string), force bool) func(*testing.T) error {
		return func(t *testing.T) error {
			from, to := t.TempDir(), t.TempDir()
			if err := os.CopyFS(from, os.DirFS(dest)); err != nil {
				t.Fatal(err)
			}
			prepare(t, from, to)
			_, err := backup.Restore(t.Context(), from, site(to), force, r.options())
			return err
		}
	}
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "thesis.txt"), "years of work")
	other := t.TempDir()
	write(t, filepath.Join(other, "manifest.json"), `{"format": 1, "installation": "another"}`)
	mark := func(id string) func(*testing.T, string, string) {
		return func(t *testing.T, _, to string) {
			if err := local.WriteMark(to, local.Mark{ID: id, Generation: 9}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, want string
		do         func(*testing.T) error
	}{
		{"a backup into a directory with something else", "not a backup", back(foreign)},
		{"a backup into another installation's", "installation another", back(other)},
		{"a backup into the blobs", "the blobs themselves", back(r.Dir)},
		{"a backup among the blobs", "the store that is to be backed up", back(filepath.Join(r.Dir, "blobs", "ab"))},
		{"a backup among the unfinished uploads", "the store that is to be backed up", back(filepath.Join(r.Dir, "staging", "backup"))},
		{"a backup into the quarantine", "the store that is to be backed up", back(filepath.Join(r.Dir, "quarantine"))},
		{"no backup", "not-found", restore(func(t *testing.T, from, _ string) { remove(t, filepath.Join(from, "manifest.json")) }, true)},
		{"a newer format", "use a newer release", restore(func(t *testing.T, from, _ string) {
			write(t, filepath.Join(from, "manifest.json"), `{"format": 2}`)
		}, true)},
		{"a changed database", "changed or damaged", restore(func(t *testing.T, from, _ string) {
			f, err := os.OpenFile(filepath.Join(from, manifest(t, from).Database), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{1}, 5000); err != nil {
				t.Fatal(err)
			}
		}, true)},
		{"a database elsewhere", "names the database", restore(func(t *testing.T, from, _ string) {
			m := manifest(t, from)
			m.Database = "../" + m.Database
			text, _ := json.Marshal(m)
			write(t, filepath.Join(from, "manifest.json"), string(text))
		}, true)},
		{"onto this installation, without force", "--force", restore(mark(installation), false)},
		{"onto another installation, with force", "holds installation another", restore(mark("another"), true)},
		{"onto blobs without a mark", "without a mark", restore(func(t *testing.T, _, to string) {
			write(t, filepath.Join(to, "blobs", "ab", "x"), "bytes")
		}, false)},
		{"onto a database that cannot be read", "cannot be read", restore(func(t *testing.T, _, to string) {
			write(t, filepath.Join(to, "smartdrive.db"), strings.Repeat("no database ", 1000))
		}, false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := c.do(t); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Cleanup(func() {
		if all := files(t, foreign); len(all) != 1 {
			t.Errorf("a refused backup left something: %v", all)
		}
	})
}

func manifest(t *testing.T, dir string) backup.Manifest {
	t.Helper()
	m, err := backup.ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// An older backup is restored onto a newer installation: the database is moved aside, no byte is
// lost, and unexplained files go to the quarantine on request.
func TestRestoreOntoTheSameInstallation(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	r.backup(t, dest, r.options())
	r.put(t, "/later", "not in the backup")
	small := r.scalarOf(t, `SELECT file FROM blobs WHERE size = 12`)
	torn := packOf(t, r.Dir, small)
	moved := t.TempDir() // the site itself stays for its cleanup
	r.exec(t, `UPDATE meta SET value = '40' WHERE name = 'generation'`)
	if err := os.CopyFS(moved, os.DirFS(r.Dir)); err != nil {
		t.Fatal(err)
	}
	torn = filepath.Join(moved, strings.TrimPrefix(torn, r.Dir))
	tear(t, torn, small)
	before := files(t, filepath.Join(moved, "blobs"), filepath.Join(moved, "staging"))
	got, err := backup.Restore(t.Context(), dest, site(moved), true, r.options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(got.Aside, "smartdrive.db")); err != nil {
		t.Errorf("the database that was there: %v", err)
	}
	after := files(t, filepath.Join(moved, "blobs"), filepath.Join(moved, "staging"), filepath.Join(moved, "quarantine"))
	for name, size := range before {
		if _, ok := after[name]; !ok {
			t.Errorf("%s (%d bytes) is gone", name, size)
		}
	}
	o := open(t, moved)
	if generation := o.scalar(t, `SELECT value FROM meta WHERE name = 'generation'`); generation != "41" {
		t.Errorf("generation %s", generation)
	}
	if b, err := o.read(t, r.who, "/b"); string(b) != "a small file" {
		t.Errorf("the torn file: %q, %v", b, err)
	}
	wantStrays(t, o, 3) // the later file and two stagings
}

// wantStrays expects n strays, quarantines them, and ends the restored mode.
func wantStrays(t *testing.T, o *opened, n int) {
	t.Helper()
	report, err := o.audit.RunOnce(t.Context())
	if err != nil || report.Total != n || report.Repaired != 0 {
		t.Fatalf("in the background: %+v, %v", report, err)
	}
	if report, err = o.audit.Check(t.Context(), fsck.Scope{Repair: true}); err != nil || report.Repaired != n || o.audit.Counters.Removed.Load() != 0 {
		t.Fatalf("by an administrator: %+v, %v", report, err)
	}
	wantCleanAndOver(t, o)
}

// A database snapshot placed manually beside newer blobs.
func TestAdopt(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	snapshot, err := backup.Snapshot(t.Context(), r.DB, backup.SnapshotOptions{Dir: t.TempDir(), Keep: 7, Now: r.Clock.Now(), RetentionNow: r.Clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "/later", "not in the snapshot")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(r.Dir)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.RemoveAll(filepath.Join(dir, "smartdrive.db"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(snapshot, filepath.Join(dir, "smartdrive.db")); err != nil {
		t.Fatal(err)
	}
	if err := local.WriteMark(dir, local.Mark{ID: installation, Generation: 77}); err != nil {
		t.Fatal(err)
	}
	adopt(t, dir, "", 2)
	mark, _, err := local.ReadMark(dir)
	o := open(t, dir)
	if err != nil || mark.Generation != 78 || o.scalar(t, `SELECT value FROM meta WHERE name = 'generation'`) != "78" {
		t.Errorf("mark %+v, %v", mark, err)
	}
	wantStrays(t, o, 3)
	if err := local.WriteMark(dir, local.Mark{ID: "another", Generation: 1}); err != nil {
		t.Fatal(err)
	}
	adopt(t, dir, "of another", 0)
}

func adopt(t *testing.T, dir, refused string, uploads int64) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Options{Path: filepath.Join(dir, "smartdrive.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	n, err := backup.Adopt(t.Context(), db, site(dir), backup.Options{})
	if n != uploads || (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
		t.Errorf("adopted with %d uploads, %v", n, err)
	}
}

// A manipulated database cannot make a restore write elsewhere.
func TestNamesCannotLeaveDirectory(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	for _, name := range []string{"../../evil", "put-1-../x", "put-x-" + drive.NewID[drive.BlobID]().String(), "/etc/passwd", ""} {
		r.exec(t, `UPDATE blobs SET file = ? WHERE size = 12`, name)
		_, err := backup.Run(t.Context(), r.DB, r.Dir, filepath.Join(t.TempDir(), "backup"), r.options())
		if err == nil || !strings.Contains(err.Error(), "not a name for content") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
