package backup_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/backup"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/unlink"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const installation = "0198c0de-0000-7000-8000-000000000001"

// rig is an installation with two files, an active and a parked upload.
type rig struct {
	*uploadtest.Site
	who  drive.Who
	data []byte
}

func newRig(t *testing.T, opt uploadtest.Options) *rig {
	t.Helper()
	sqldbtest.SQLiteOnly(t, "a server's database is copied by its own tools")
	r := &rig{Site: uploadtest.New(t, opt), data: make([]byte, 5<<20)}
	r.who = r.Account(t, 0)
	_, _ = rand.Read(r.data)
	r.exec(t, `INSERT INTO meta (name, value) VALUES ('installation', ?), ('generation', '5')`, installation)
	if err := local.WriteMark(r.Dir, local.Mark{ID: installation, Generation: 5}); err != nil {
		t.Fatal(err)
	}
	parked := r.Start(t, r.who, "/parked", 5<<20)
	r.send(t, parked, 0)
	r.AdvanceAndFire(t, time.Minute)
	v := r.Start(t, r.who, "/a", 5<<20)
	r.SendAll(t, r.who, v, r.data)
	if _, _, err := r.Complete(t.Context(), r.who, v.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
	r.put(t, "/b", "a small file")
	r.send(t, r.Start(t, r.who, "/active", 5<<20), 0)
	return r
}

func (r *rig) send(t *testing.T, v upload.View, n int) {
	t.Helper()
	if err := r.Send(t, r.who, v, n, r.data); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) put(t *testing.T, path, text string) {
	t.Helper()
	p := upload.PutFile{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(text))}
	if _, _, err := r.PutFile(t.Context(), r.who, p, strings.NewReader(text)); err != nil {
		t.Error(err)
	}
}

func (r *rig) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	exec(t, r.DB, query, args...)
}

func exec(t *testing.T, db *sqldb.DB, query string, args ...any) {
	t.Helper()
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) options() backup.Options { return options(r.Clock.Now) }

func options(now func() time.Time) backup.Options {
	return backup.Options{Now: now, Packs: local.PackFiles{}, Log: slog.New(slog.DiscardHandler)}
}

func (r *rig) backup(t *testing.T, dest string, opt backup.Options) backup.Result {
	t.Helper()
	res, err := backup.Run(t.Context(), r.DB, r.Dir, dest, opt)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func site(dir string) backup.Target {
	return backup.Target{
		Data: dir, Blobs: dir,
		ReadMark: func(dir string) (backup.Marker, bool, error) {
			m, found, err := local.ReadMark(dir)
			return backup.Marker(m), found, err
		},
		WriteMark: func(dir string, m backup.Marker) error { return local.WriteMark(dir, local.Mark(m)) },
	}
}

// opened is an installation as found by the next start.
type opened struct {
	db    *sqldb.DB
	local *local.Dir
	audit *fsck.Checker
}

func open(t *testing.T, dir string) *opened {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := sqldb.Open(t.Context(), sqldb.Options{Path: filepath.Join(dir, "smartdrive.db"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := local.Open(t.Context(), local.Options{Dir: dir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(blobs.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return &opened{db, blobs, fsck.New(fsck.Dependencies{
		DB: db, Staging: blobs.Staging, Store: blobs.Blobs, Quarantine: blobs.Quarantine, Generation: 1000,
	}, fsck.Options{Log: log, RecheckDelay: 1})}
}

func (o *opened) read(t *testing.T, who drive.Who, path string) ([]byte, error) {
	t.Helper()
	ctx := t.Context()
	n, err := tree.New(tree.Options{}).Resolve(ctx, o.db, who.Account, uploadtest.Path(t, path))
	if err != nil {
		return nil, err
	}
	b, err := content.Content{}.Find(ctx, o.db, n.Blob)
	if err != nil {
		return nil, err
	}
	f, err := o.local.Blobs.Open(ctx, b.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, f.Size())
	_, err = f.ReadAt(data, 0)
	return data, err
}

func (o *opened) scalar(t *testing.T, query string) (v string) {
	t.Helper()
	if err := o.db.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// files returns the names and sizes of all content files below dirs.
func files(t *testing.T, dirs ...string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || e.Name() == "backup.lock" {
				return err
			}
			info, err := e.Info()
			if err == nil {
				all[e.Name()] = info.Size()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, copies := range []bool{false, true} {
		t.Run(fmt.Sprintf("copies %v", copies), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, uploadtest.Options{})
			dest, dir := filepath.Join(t.TempDir(), "backup"), t.TempDir()
			opt := r.options()
			opt.Copy = copies
			res := r.backup(t, dest, opt)
			if res.Blobs != 2 || res.Bytes != 5<<20+12 || res.Installation != installation || res.Generation != 5 || !res.Complete {
				t.Errorf("%+v", res)
			}
			if want := (backup.Transferred{Copied: 2, Bytes: 5<<20 + 12}); copies && res.Moved != want {
				t.Errorf("moved %+v", res.Moved)
			}
			r.put(t, "/later", "not in the backup")

			got, err := backup.Restore(t.Context(), dest, site(dir), false, opt)
			if err != nil || got.Uploads != 2 || len(got.Missing) != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			o := open(t, dir)
			if a, err := o.read(t, r.who, "/a"); err != nil || !bytes.Equal(a, r.data) {
				t.Errorf("/a: %d bytes, %v", len(a), err)
			}
			if b, err := o.read(t, r.who, "/b"); string(b) != "a small file" {
				t.Errorf("/b: %q, %v", b, err)
			}
			if _, err := o.read(t, r.who, "/later"); !drive.IsKind(err, drive.NotFound) {
				t.Errorf("/later: %v", err)
			}
			if got := o.scalar(t, `SELECT finished || '/' || unfinished || '/' || reserved FROM ledgers`); got != "5242892/0/0" {
				t.Errorf("balance %s", got)
			}
			if got := o.scalar(t, `SELECT group_concat(DISTINCT state || ' ' || reason) FROM uploads WHERE state <> 'done'`); got != "gone reset" {
				t.Errorf("open uploads are %s", got)
			}
			mark, _, err := local.ReadMark(dir)
			if want := (local.Mark{ID: installation, Generation: 6}); err != nil || mark != want || o.scalar(t, `SELECT value FROM meta WHERE name = 'generation'`) != "6" {
				t.Errorf("mark %+v, %v", mark, err)
			}
			wantCleanAndOver(t, o)
		})
	}
}

// wantCleanAndOver checks everything and ends the restored mode.
func wantCleanAndOver(t *testing.T, o *opened) {
	t.Helper()
	report, err := o.audit.Check(t.Context(), fsck.Scope{Deep: true})
	if err != nil || !report.Clean() || !report.Restored {
		t.Errorf("%+v, %v", report, err)
	}
	if err := fsck.EndRestored(t.Context(), o.db, report); err != nil {
		t.Error(err)
	}
}

func TestNextBackupTransfersOnlyNewContents(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{Unlink: unlink.Options{Grace: time.Minute}})
	dest := filepath.Join(t.TempDir(), "backup")
	opt := r.options()
	opt.Copy = true
	r.backup(t, dest, opt)
	r.Clock.Advance(time.Hour)
	if res := r.backup(t, dest, opt); res.Moved != (backup.Transferred{}) || res.Pruned != 0 {
		t.Errorf("nothing had changed: %+v", res)
	}
	for i := range 6 { // five versions are kept
		r.Clock.Advance(31 * 24 * time.Hour)
		r.put(t, "/b", fmt.Sprintf("version %d", i))
	}
	r.Clock.Advance(time.Hour)
	if _, err := r.DeleteDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := r.backup(t, dest, opt); res.Moved.Copied != 5 || res.Pruned != 1 || res.Blobs != 6 {
		t.Errorf("after changes: %+v", res)
	}
	want := 6 + 1 + 1
	if r.packs(t) > 0 {
		want = 1 + 1 + 1 + 1 // small contents share a file
	}
	if n := len(files(t, dest)); n != want {
		t.Errorf("the backup has %d files: %v", n, files(t, dest))
	}
	info, err := os.Stat(dest)
	m, _ := backup.ReadManifest(dest)
	database, dbErr := os.Stat(filepath.Join(dest, m.Database))
	if errors.Join(err, dbErr) != nil || info.Mode().Perm() != 0o700 || database.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", info.Mode(), database.Mode())
	}
}

// An interrupted run leaves temporary, torn or needless files; the next run completes the backup.
func TestInterruptedBackupCanRunAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	ctx, cancel := context.WithCancel(t.Context())
	opt := r.options()
	opt.Now = func() time.Time { cancel(); return r.Clock.Now() } // at the start of the first round
	if _, err := backup.Run(ctx, r.DB, r.Dir, dest, opt); err == nil {
		t.Fatal("a run that was stopped succeeded")
	}
	if _, err := backup.Restore(t.Context(), dest, site(t.TempDir()), false, r.options()); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("half a backup was restored: %v", err)
	}
	big := r.scalarOf(t, `SELECT file FROM blobs WHERE size > 12`)
	shard := filepath.Join(dest, "blobs", big[len(big)-2:])
	stray := drive.NewID[drive.BlobID]().String()
	for _, path := range []string{
		filepath.Join(shard, big), filepath.Join(shard, big+".new"), filepath.Join(dest, "database.new"), filepath.Join(dest, "database-17.db"),
		filepath.Join(dest, "manifest.json.new"), filepath.Join(dest, "blobs", stray[34:], stray),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("torn"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r.backup(t, dest, r.options())
	if all := files(t, dest); len(all) != 4 || all[big] != 5<<20 {
		t.Errorf("the backup has %v", all)
	}
	dir := t.TempDir()
	if _, err := backup.Restore(t.Context(), dest, site(dir), false, r.options()); err != nil {
		t.Fatal(err)
	}
	wantCleanAndOver(t, open(t, dir))
}

// packOf returns the path of a small content's pack.
func packOf(t *testing.T, dir, name string) string {
	t.Helper()
	at, ok := blob.SlotOf(name)
	shard, _ := blob.ShardOf(name)
	if !ok {
		t.Fatalf("%s lies in no pack", name)
	}
	return filepath.Join(dir, "blobs", shard, at.Pack+".pack")
}

// tear destroys the header of a content in a pack.
func tear(t *testing.T, pack, name string) {
	t.Helper()
	at, _ := blob.SlotOf(name)
	f, err := os.OpenFile(pack, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("torn"), at.First*4096)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) scalarOf(t *testing.T, query string) (v string) {
	t.Helper()
	if err := r.DB.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestBackupOfBusyInstallationIsComplete(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{Unlink: unlink.Options{Grace: 1}}) // files are deleted at once
	dest := filepath.Join(t.TempDir(), "backup")
	stop := make(chan struct{})
	var busy sync.WaitGroup
	const rest = 4 // deletions stop in this round: deleting faster than copying would never end
	var turn sync.Mutex
	rounds := 0
	opt := r.options()
	opt.Now = func() time.Time { // called once per round
		if rounds++; rounds == rest {
			turn.Lock()
		}
		return r.Clock.Now()
	}
	busy.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			turn.Lock()
			r.Clock.Advance(31 * 24 * time.Hour)
			r.put(t, fmt.Sprintf("/busy-%d", i%2), fmt.Sprintf("version %d", i))
			_, _ = r.DeleteDue(t.Context())
			turn.Unlock()
		}
	})
	for range 3 {
		rounds = 0
		if res, err := backup.Run(t.Context(), r.DB, r.Dir, dest, opt); err != nil || len(res.Missing) != 0 {
			t.Errorf("missing: %v, %v", res.Missing, err)
		}
		if rounds >= rest {
			turn.Unlock()
		}
	}
	close(stop)
	busy.Wait()
	dir := t.TempDir()
	if res, err := backup.Restore(t.Context(), dest, site(dir), false, r.options()); err != nil || len(res.Missing) != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	wantCleanAndOver(t, open(t, dir))
}

func TestMissingContentsAreReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	small := r.scalarOf(t, `SELECT file FROM blobs WHERE size = 12`)
	if err := os.Remove(packOf(t, r.Dir, small)); err != nil {
		t.Fatal(err)
	}
	if res := r.backup(t, dest, r.options()); len(res.Missing) != 1 || res.Missing[0] != small {
		t.Errorf("%+v", res)
	}
	dir := t.TempDir()
	if res, err := backup.Restore(t.Context(), dest, site(dir), false, r.options()); err != nil || len(res.Missing) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if report, err := open(t, dir).audit.Check(t.Context(), fsck.Scope{}); err != nil || report.Total != 1 || report.Clean() {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestOneSnapshotPerDay(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dir := filepath.Join(r.Dir, "backups")
	for day := range 10 {
		now := time.Date(2026, 11, 20+day, 3, 0, 0, 0, time.UTC)
		path, err := backup.Snapshot(t.Context(), r.DB, backup.SnapshotOptions{Dir: dir, Keep: 7, Now: now, RetentionNow: now})
		if err != nil {
			t.Fatal(err)
		}
		first, _ := os.Stat(path)
		again, err := backup.Snapshot(t.Context(), r.DB, backup.SnapshotOptions{Dir: dir, Keep: 7, Now: now.Add(time.Hour), RetentionNow: now})
		if second, _ := os.Stat(again); err != nil || !os.SameFile(first, second) || first.Mode().Perm() != 0o600 {
			t.Errorf("the second one of a day: %s, %v, %v", again, first.Mode(), err)
		}
	}
	all := files(t, dir)
	if _, newest := all["smartdrive-2026-11-29.db"]; len(all) != 7 || !newest {
		t.Errorf("kept %v", all)
	}
}

// A copy that would take the database's own space is not started, and a failed copy leaves nothing.
func TestSnapshotRespectsSpare(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	now := r.Clock.Now()
	var spare drive.ByteSize
	s := backup.SnapshotOptions{Dir: t.TempDir(), Keep: 7, Now: now, RetentionNow: now, Spare: func() (drive.ByteSize, error) { return spare, nil }}
	for _, spare = range []drive.ByteSize{-1, 0, 4 * drive.KiB} {
		if _, err := backup.Snapshot(t.Context(), r.DB, s); !drive.IsKind(err, drive.DiskFull) {
			t.Errorf("%d bytes to spare: %v", spare, err)
		}
	}
	spare = drive.GiB
	ctx, cancel := context.WithCancel(t.Context())
	s.Spare = func() (drive.ByteSize, error) { cancel(); return spare, nil }
	if _, err := backup.Snapshot(ctx, r.DB, s); err == nil {
		t.Error("a copy that was given up is there")
	}
	if left := files(t, s.Dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	path, err := backup.Snapshot(t.Context(), r.DB, s)
	if err != nil {
		t.Fatal(err)
	}
	spare = drive.ByteSize(files(t, s.Dir)[filepath.Base(path)]) + 64*drive.KiB // the database has pages that are not full
	s.Now = now.AddDate(0, 0, 1)
	if _, err := backup.Snapshot(t.Context(), r.DB, s); err != nil { // as large as the previous one
		t.Errorf("%d bytes are enough: %v", spare, err)
	}
}

// B4: a jumping wall clock creates snapshots of wrong days and expires no good ones. While the
// retention clock is behind, there are at most three times as many.
func TestClockJumpExpiresNoSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dir := filepath.Join(r.Dir, "backups")
	day := func(n int) time.Time { return time.Date(2026, 11, 20+n, 3, 0, 0, 0, time.UTC) }
	snapshot := func(now, kept time.Time) {
		t.Helper()
		if _, err := backup.Snapshot(t.Context(), r.DB, backup.SnapshotOptions{Dir: dir, Keep: 7, Now: now, RetentionNow: kept}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 7 {
		snapshot(day(n), day(n))
	}
	for n := range 10 {
		snapshot(day(30+n), day(6))
	}
	if all := files(t, dir); len(all) != 17 {
		t.Errorf("after ten false days %v are there", all)
	}
	snapshot(day(17), day(17)) // the clock is right again
	all := files(t, dir)
	for n := range 7 {
		if _, there := all["smartdrive-"+day(n).Format("2006-01-02")+".db"]; there {
			t.Errorf("that of day %d is kept for too long", n)
		}
	}
	if len(all) != 11 {
		t.Errorf("left: %v", all)
	}
	for n := range 20 {
		snapshot(day(60+n), day(17))
	}
	if all := files(t, dir); len(all) != 21 {
		t.Errorf("%d snapshots fill the disk", len(all))
	}
}
