package fsck_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// rig is an installation with a sample of everything: file /a of three parts, small file /b, an
// active and a parked upload.
type rig struct {
	*uploadtest.Site
	audit   *fsck.Checker
	who     drive.Who
	data    []byte
	active  upload.View
	parked  upload.View
	between func() // runs before the second look at suspicions
	hooksOf *hooks // hooks of its uploads
	away    error  // error of Dependencies.Home
	asked   int    // number of calls of Dependencies.Home
	stays   int    // calls that succeed
}

type engine struct{ *memory.Queue }

func (e engine) Arm(ctx context.Context, entries ...timer.Entry) error {
	return e.Queue.Arm(ctx, entries)
}

const generation = 7

func newRig(t *testing.T, opt uploadtest.Options) *rig {
	t.Helper()
	opt.Upload.Generation = generation
	r := &rig{Site: uploadtest.New(t, opt)}
	r.audit = r.auditor(fsck.Options{})
	r.who = r.Account(t, 0)
	r.data = random(5 << 20)
	r.parked = r.Start(t, r.who, "/parked", 5<<20)
	r.send(t, r.parked, 1)
	r.AdvanceAndFire(t, time.Minute)
	v := r.Start(t, r.who, "/a", 5<<20)
	r.SendAll(t, r.who, v, r.data)
	r.complete(t, v)
	r.put(t, "/b", []byte("a small file"))
	r.active = r.Start(t, r.who, "/active", 5<<20)
	r.send(t, r.active, 0)
	return r
}

func (r *rig) auditor(opt fsck.Options) *fsck.Checker {
	opt.Now, opt.Log = r.Clock.Now, slog.New(slog.DiscardHandler)
	if opt.Sleep == nil {
		opt.Sleep = func(ctx context.Context, _ time.Duration) error {
			if r.between != nil {
				r.between()
			}
			return ctx.Err()
		}
	}
	return fsck.New(fsck.Dependencies{
		DB: r.DB, Staging: r.Local.Staging, Store: r.Local.Blobs, Content: r.Content, Timers: engine{r.Queue}, IsWriting: r.IsWriting,
		Quarantine: r.Local.Quarantine, Generation: generation, CheckMounted: func(context.Context) error {
			if r.asked++; r.asked <= r.stays {
				return nil
			}
			return r.away
		},
	}, opt)
}

func random(n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = src.Read(b)
	return b
}

func (r *rig) send(t *testing.T, v upload.View, n int) {
	t.Helper()
	if err := r.Send(t, r.who, v, n, r.data); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) complete(t *testing.T, v upload.View) {
	t.Helper()
	if _, _, err := r.Complete(t.Context(), r.who, v.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) put(t *testing.T, path string, data []byte) {
	t.Helper()
	p := upload.PutFile{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(data))}
	if _, _, err := r.PutFile(t.Context(), r.who, p, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

// check runs a pass and returns its findings as "invariant: expected | found", without ids of the
// subjects.
func (r *rig) check(t *testing.T, scope fsck.Scope) (found []string, repaired int) {
	t.Helper()
	report, err := r.audit.Check(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		found = append(found, fmt.Sprintf("%s %s: %s | %s", f.Invariant, strings.Fields(f.Subject)[0], f.Expected, f.Found))
	}
	return found, report.Repaired
}

func (r *rig) wantClean(t *testing.T) {
	t.Helper()
	if found, _ := r.check(t, fsck.Scope{Deep: true}); len(found) > 0 {
		t.Errorf("not clean:\n%s", strings.Join(found, "\n"))
	}
}

// scalar reads one value.
func (r *rig) scalar(t *testing.T, query string, args ...any) (v string) {
	t.Helper()
	if err := r.DB.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// spoil changes the database directly, ignoring foreign keys.
func (r *rig) spoil(t *testing.T, statements string) {
	t.Helper()
	if sqldbtest.OnMySQL() { // has no foreign keys there that would prevent the damage
		for statement := range strings.SplitSeq(statements, ";") {
			r.exec(t, statement)
		}
		return
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.Dir, "smartdrive.db")+"?_pragma=busy_timeout(5000)&_pragma=ignore_check_constraints(ON)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func (r *rig) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	err := r.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plant writes a file below the installation's directory.
func (r *rig) plant(t *testing.T, name string, size int) {
	t.Helper()
	path := filepath.Join(r.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, random(size), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(r.Dir, filepath.FromSlash(name)))
	return err == nil
}

// quarantined returns the names in the quarantine.
func (r *rig) quarantined(t *testing.T) []string {
	t.Helper()
	items, err := r.audit.ListQuarantine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range items {
		names = append(names, item.Name)
	}
	return names
}

func blobPlace(name string) string {
	shard, _ := blob.ShardOf(name)
	return blob.ShardPath(shard, name)
}

func TestCleanInstallationHasNoFindings(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	report, err := r.audit.Check(t.Context(), fsck.Scope{Deep: true, Repair: true})
	if err != nil || report.Total != 0 || !report.Clean() {
		t.Fatalf("%+v, %v", report, err)
	}
	want := fsck.Checked{Accounts: 1, Nodes: 3, Versions: 2, Blobs: 2, Uploads: 2, Staged: 2, Files: 2, Read: 5<<20 + 12}
	if report.Checked != want {
		t.Errorf("checked %+v, want %+v", report.Checked, want)
	}
}

func TestFindingsAreKeptOnceAndTrimmed(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.plant(t, "blobs/readme.txt", 10)
	for range 3 {
		r.Clock.Advance(time.Hour)
		r.check(t, fsck.Scope{})
	}
	all, err := fsck.ListFindings(t.Context(), r.DB, 0, 10)
	if err != nil || len(all) != 1 || all[0].SeenAt.Sub(all[0].FoundAt) != 2*time.Hour || all[0].Repaired {
		t.Fatalf("a stray that stays: %+v, %v", all, err)
	}
	r.check(t, fsck.Scope{Repair: true})
	if all, _ = fsck.ListFindings(t.Context(), r.DB, 0, 10); len(all) != 1 || !all[0].Repaired {
		t.Errorf("after the repair: %+v", all)
	}
	if older, _ := fsck.ListFindings(t.Context(), r.DB, all[0].ID, 10); len(older) != 0 {
		t.Errorf("the next page: %+v", older)
	}
	r.Clock.Advance(91 * 24 * time.Hour)
	if _, err := r.audit.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if old := r.scalar(t, `SELECT COUNT(*) FROM findings WHERE subject = 'blobs/readme.txt'`); old != "0" {
		t.Errorf("%s findings are older than 90 days", old)
	}
}

// B4: a clock jump expires no finding, and a slow clock creates no old finding.
func TestClockJumpExpiresNoFinding(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	kept := r.Clock.Now()
	r.audit.RetentionClock = func() time.Time { return kept }
	r.plant(t, "blobs/readme.txt", 10)
	r.check(t, fsck.Scope{Repair: true})
	r.Clock.Advance(91 * 24 * time.Hour)
	if _, err := r.audit.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Clock.Advance(-1000 * 24 * time.Hour)
	r.plant(t, "blobs/another.txt", 10)
	if _, err := r.audit.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.scalar(t, `SELECT COUNT(*) FROM findings`); n != "2" {
		t.Errorf("%s findings of two are left", n)
	}
	kept = kept.Add(91 * 24 * time.Hour)
	if _, err := r.audit.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.scalar(t, `SELECT COUNT(*) FROM findings`); n != "0" {
		t.Errorf("%s findings are older than 90 days", n)
	}
}

func TestRestoredBackupIsNotRepaired(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.exec(t, `INSERT INTO meta (name, value) VALUES ('restored', '1')`)
	stale := fmt.Sprintf("put-%d-%s", generation-1, drive.NewID[drive.UploadID]())
	r.plant(t, blobPlace(stale), 100)
	gone := r.parked.ID.String()
	dir := "staging/2026/11/20/" + gone
	r.exec(t, `UPDATE ledgers SET unfinished = 0`)
	r.exec(t, `UPDATE uploads SET state = 'gone', held = 0, reserved = 0 WHERE id = ?`, gone)

	report, err := r.audit.RunOnce(t.Context())
	if err != nil || report.Total != 2 || report.Repaired != 0 || !report.Restored {
		t.Fatalf("in the background: %+v, %v", report, err)
	}
	if err := fsck.EndRestored(t.Context(), r.DB, report); err == nil {
		t.Error("the mode ended with findings")
	}
	if report, err = r.audit.Check(t.Context(), fsck.Scope{Repair: true}); err != nil || report.Repaired != 2 {
		t.Fatalf("by an administrator: %+v, %v", report, err)
	}
	if got := r.quarantined(t); len(got) != 2 || r.exists(dir) || r.exists(blobPlace(stale)) {
		t.Errorf("quarantine: %v: nothing may be deleted while the rows are older than the bytes", got)
	}
	if report, err = r.audit.Check(t.Context(), fsck.Scope{}); err != nil || !report.Clean() {
		t.Fatalf("again: %+v, %v", report, err)
	}
	if err := fsck.EndRestored(t.Context(), r.DB, report); err != nil {
		t.Fatal(err)
	}
	if restored, err := fsck.Restored(t.Context(), r.DB); restored || err != nil {
		t.Errorf("restored %v, %v", restored, err)
	}
}

func TestOnlyPurgeEmptiesQuarantine(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.plant(t, "blobs/one", 10)
	r.plant(t, "staging/two/deep/file", 20)
	r.check(t, fsck.Scope{Repair: true})
	items, err := r.audit.ListQuarantine(t.Context())
	if err != nil || len(items) != 2 || items[0].Date != "2026-11-20" || items[0].Size+items[1].Size != 30 {
		t.Fatalf("%+v, %v", items, err)
	}
	r.plant(t, "blobs/three", 30)
	r.check(t, fsck.Scope{Repair: true})
	gone, err := r.audit.PurgeQuarantine(t.Context(), items)
	if want := (fsck.Tally{Count: 2, Bytes: 30}); err != nil || gone != want {
		t.Errorf("purged %+v, %v", gone, err)
	}
	if got := r.quarantined(t); len(got) != 1 || got[0] != "blobs_three" {
		t.Errorf("left: %v: only what was listed may go", got)
	}
	r.plant(t, "beside", 1)
	outside := []blob.Quarantined{{Date: "..", Name: "beside"}}
	if _, err := r.audit.PurgeQuarantine(t.Context(), outside); err == nil || !r.exists("beside") {
		t.Errorf("a purge left the quarantine: %v", err)
	}
}

func TestBackgroundYieldsAndKeepsShare(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	var slept time.Duration
	resting, goOn := make(chan struct{}), make(chan struct{})
	first := true
	r.audit = r.auditor(fsck.Options{Share: 0.01, Scrub: time.Hour, Rate: 1 << 20, Sleep: func(_ context.Context, d time.Duration) error {
		slept += d
		if first {
			first = false
			close(resting)
			<-goOn
		}
		return nil
	}})
	r.Clock.Advance(2 * time.Hour)
	background := make(chan error, 1)
	go func() {
		_, err := r.audit.RunOnce(t.Context())
		background <- err
	}()
	<-resting // it has read the bytes of the first second
	foreground := make(chan error, 1)
	go func() {
		_, err := r.audit.Check(t.Context(), fsck.Scope{})
		foreground <- err
	}()
	for r.audit.Waiting() == 0 {
		runtime.Gosched()
	}
	close(goOn)
	if err := <-background; err == nil || !strings.Contains(err.Error(), "stepped aside") {
		t.Errorf("the background ended with %v", err)
	}
	if err := <-foreground; err != nil {
		t.Error(err)
	}
	if _, err := r.audit.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slept < 4*time.Second {
		t.Errorf("5 MiB were read in %v at 1 MiB/s", slept)
	}
	if n := r.scalar(t, `SELECT COUNT(*) FROM blobs WHERE scrubbed_at < ?`, drive.TimeOf(r.Clock.Now())); n != "0" {
		t.Errorf("%s blobs are overdue", n)
	}
}

// Read times are stored for many contents together, by a check and in the background.
func TestReadTimesAreStoredInBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	const files = 150
	for n := range files {
		r.put(t, fmt.Sprintf("/small-%d", n), fmt.Appendf(nil, "text %d", n))
	}
	r.audit = r.auditor(fsck.Options{Scrub: time.Hour})
	for name, read := range map[string]func() error{
		"a check":        func() error { _, err := r.audit.Check(t.Context(), fsck.Scope{Deep: true}); return err },
		"the background": func() error { _, err := r.audit.RunOnce(t.Context()); return err },
	} {
		r.Clock.Advance(2 * time.Hour)
		writes := r.DB.Stats().Writes.Load()
		if err := read(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := r.DB.Stats().Writes.Load() - writes; n > files/2 {
			t.Errorf("%s: %d transactions for %d contents", name, n, files)
		}
		if n := r.scalar(t, `SELECT COUNT(*) FROM blobs WHERE scrubbed_at < ?`, drive.TimeOf(r.Clock.Now())); n != "0" {
			t.Errorf("%s: %s blobs are overdue", name, n)
		}
	}
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	a := r.auditor(fsck.Options{Sleep: func(ctx context.Context, d time.Duration) error {
		if d >= 10*time.Minute {
			if rounds++; rounds == 3 {
				cancel()
			}
		}
		return ctx.Err()
	}})
	if err := a.Run(ctx); err != nil || a.Counters.Passes.Load() != 2 || a.Counters.CleanAt.Load() == 0 {
		t.Errorf("%v after %d passes", err, a.Counters.Passes.Load())
	}
	if err := a.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
