package app

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/migrate"
	"example.org/smartdrive/test/process"
)

// The disk with the blobs is not mounted when the server is started for the second time ever: it
// refuses, makes nothing below the mount point, and serves again when the disk is there.
func TestStartWithUnmountedDiskIsRefused(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	cfg := testConfig(t, "--blobs", disk)
	opens(t, cfg)
	away := disk + ".away"
	rename(t, disk, away)
	if err := os.Mkdir(disk, 0o700); err != nil { // the mount point
		t.Fatal(err)
	}
	_, err := Open(t.Context(), cfg, silent)
	if _, mixUp := errors.AsType[*MismatchError](err); !mixUp || !strings.Contains(err.Error(), "not mounted") {
		t.Errorf("a start without the disk: %v", err)
	}
	if err := os.Remove(disk); err != nil {
		t.Errorf("something was made there: %v", err)
	}
	rename(t, away, disk)
	opens(t, cfg)
}

// fsck checks that the disk with the blobs is mounted and belongs to this installation. Without the
// disk it reports no content as lost.
func TestCheckDetectsUnmountedDisk(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	a, _, _ := opened(t, "--blobs", disk)
	home := a.auditParts().CheckMounted
	if err := home(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := disk + ".away"
	rename(t, disk, away)
	refuses := func(where string) {
		t.Helper()
		if err := home(t.Context()); !drive.IsKind(err, drive.WrongState) || !strings.Contains(err.Error(), "mounted") {
			t.Errorf("%s: %v", where, err)
		}
	}
	refuses("nothing there")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	refuses("an empty directory")
	if err := directoryMarks(disk).WriteMark(t.Context(), blob.Mark{ID: "another", Generation: 1}); err != nil {
		t.Fatal(err)
	}
	refuses("another's disk")
	if err := os.RemoveAll(disk); err != nil {
		t.Fatal(err)
	}
	rename(t, away, disk)
	if err := home(t.Context()); err != nil {
		t.Error(err)
	}
}

// A first start that died before it wrote its mark has served no request, so the next start
// continues it. After that the mark must exist.
func TestFirstStartSurvivesCrashBeforeMark(t *testing.T) {
	t.Parallel()
	db, dir := sqldbtest.Open(t), t.TempDir()
	inTheWay := filepath.Join(dir, "installation.new", "x")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := identify(t.Context(), db, directoryMarks(dir)); err == nil {
		t.Fatal("the mark was written through a directory")
	}
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	in, err := identify(t.Context(), db, directoryMarks(dir))
	if err != nil || !in.Marked {
		t.Fatalf("%+v, %v", in, err)
	}
	if _, err := identify(t.Context(), db, directoryMarks(t.TempDir())); err == nil {
		t.Error("it takes a directory without its mark")
	}
}

// The target disk of a content migration is not mounted at the start. The server waits for it,
// creates no directory in its place, and continues the migration when it is mounted.
func TestTheNewPlaceOfContentsIsNotMounted(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	cfg := testConfig(t, "--start-wait", "0")
	n := start1(t, cfg)
	fresh := filepath.Join(t.TempDir(), "disk")
	n.move(t, rest.MigrationStart{ToBlobs: fresh})
	n.stop()

	away := fresh + ".away"
	rename(t, fresh, away)
	n = start1(t, cfg)
	token := n.login(t)
	upload2(t, []*node{n}, token, "/meanwhile", []byte("written meanwhile"))
	if code, answer := n.send(t, token, http.MethodPost, "/api/v1/admin/migration/advance", []byte("{}")); code != http.StatusConflict {
		t.Errorf("it goes forward without the new place: %d %s", code, answer)
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the new place was made again")
		if err := os.RemoveAll(fresh); err != nil {
			t.Fatal(err)
		}
	}
	rename(t, away, fresh)
	n.step(t, token, "/verify", "{}")
	if s := n.step(t, token, "/advance", "{}"); s.Phase != migrate.DualWrite {
		t.Errorf("it is in phase %d", s.Phase)
	}
	n.holds(t, token, "/meanwhile", []byte("written meanwhile"))
}

// A migration's target directory must be absolute, because the server's working directory differs
// from the caller's and may differ at its next start.
func TestRelativeMigrationDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	a, _, _ := opened(t)
	for field, in := range map[string]rest.MigrationStart{"to_blobs": {ToBlobs: "reldir"}, "to_db": {ToDB: "reldir"}} {
		_, err := moveSteps{a.mover, a.users}.Start(t.Context(), drive.Who{}, in)
		if !drive.IsKind(err, drive.BadRequest) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := os.Stat("reldir"); err == nil {
		t.Error("a directory was made")
	}
}

func opens(t *testing.T, cfg config.Config) {
	t.Helper()
	a, err := Open(t.Context(), cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A move to one directory is given up, and one to another begins in the same process: what belongs
// to the first is let go, and contents go to the second.
func TestMigrationAfterRollback(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	n := start1(t, testConfig(t))
	token := n.login(t)
	places := [2]string{filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")}
	ready := func() error {
		if code, answer := n.send(t, "", http.MethodGet, "/readyz", nil); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, answer)
		}
		return nil
	}
	contentsIn := func(dir string) (found []string) {
		found, err := filepath.Glob(filepath.Join(dir, "blobs", "??", "*-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	n.move(t, rest.MigrationStart{ToBlobs: places[0]})
	n.step(t, token, "/verify", "{}")
	n.step(t, token, "/advance", "{}")
	upload2(t, []*node{n}, token, "/one", []byte("written to both"))
	n.step(t, token, "/rollback", `{"phase":2}`)
	n.step(t, token, "/rollback", `{"phase":1}`) // given up
	rename(t, places[0], places[0]+".away")      // it may be removed now
	process.Eventually(t, patience, "ready", ready)
	upload2(t, []*node{n}, token, "/two", []byte("written between"))

	n.move(t, rest.MigrationStart{ToBlobs: places[1]})
	n.step(t, token, "/verify", "{}")
	n.step(t, token, "/advance", "{}")
	upload2(t, []*node{n}, token, "/three", []byte("written to the second"))
	process.Eventually(t, patience, "ready", ready)
	process.Eventually(t, patience, "contents at the second place", func() error {
		if found := contentsIn(places[1]); len(found) != 3 {
			return fmt.Errorf("it has %v", found)
		}
		return nil
	})
	if _, err := os.Stat(places[0]); err == nil {
		t.Errorf("the first place was made again: %v", contentsIn(places[0]))
	}
}
