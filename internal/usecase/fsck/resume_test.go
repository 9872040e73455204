package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Wherever a pass crashes, another auditor resumes it: nothing is skipped, and saved results are
// not counted twice.
func TestPassResumesAfterCrashAnywhere(t *testing.T) {
	t.Parallel()
	fate := &uploadtest.Faults{}
	r := newRig(t, uploadtest.Options{Faults: fate})
	for n := 1; ; n += 4 {
		stray := fmt.Sprintf("018f0000-0000-7000-8000-%012x", n) // older than all contents, each time in another shard
		r.plant(t, blobPlace(stray), 10)
		r.exec(t, `UPDATE trees SET node_count = 9`)
		fate.Set(uploadtest.Rule{N: n, Effect: uploadtest.Die})
		_, err := r.auditor(fsck.Options{SaveInterval: 1}).RunOnce(t.Context())
		if !fate.Clear() {
			if err != nil || n < 20 {
				t.Errorf("it ended at call %d, %v", n, err)
			}
			break
		}
		if err == nil {
			t.Fatalf("call %d failed and nobody noticed", n)
		}
		report, err := r.auditor(fsck.Options{SaveInterval: 1}).RunOnce(t.Context())
		if err != nil || !report.Clean() || report.Total > 2 {
			t.Fatalf("after call %d: %+v, %v", n, report, err)
		}
		want := fsck.Checked{Accounts: 1, Nodes: 3, Versions: 2, Blobs: 2, Uploads: 2, Staged: 2, Files: 3}
		gone := want
		gone.Files = 2 // the stray was quarantined before the first crash
		if report.Checked != want && report.Checked != gone {
			t.Fatalf("after call %d checked %+v, want %+v", n, report.Checked, want)
		}
		if r.exists(blobPlace(stray)) || r.scalar(t, `SELECT node_count FROM trees`) != "2" {
			t.Fatalf("after call %d something was left out", n)
		}
	}
	if n := r.scalar(t, `SELECT COUNT(*) FROM meta WHERE name = 'audit'`); n != "0" {
		t.Error("the save point of a pass that has ended is left")
	}
	r.wantClean(t)
}

// failingStore is an unavailable store.
type failingStore struct{ blob.Store }

var errDown = errors.New("the store is away")

func (failingStore) List(context.Context, func(blob.Entry) error) error { return errDown }

func (failingStore) ListUnsharded(context.Context, func(blob.Entry) error) error { return errDown }

func (failingStore) ListPage(context.Context, string, string, int) ([]blob.Entry, bool, error) {
	return nil, false, errDown
}

func (failingStore) Stat(context.Context, string) (drive.ByteSize, error) { return 0, errDown }

// Database repairs and timers come before the first request to the store.
func TestDatabaseRepairsRunBeforeStoreChecks(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.exec(t, `UPDATE trees SET node_count = 9`)
	r.Queue.Forget()
	r.audit.Store = failingStore{r.Local.Blobs}
	if _, err := r.audit.Check(t.Context(), fsck.Scope{Repair: true}); !errors.Is(err, errDown) {
		t.Errorf("without its store the pass ended with %v", err)
	}
	if n := r.scalar(t, `SELECT node_count FROM trees`); n != "2" {
		t.Errorf("the count of nodes is %s", n)
	}
	if _, err := r.Queue.Show(t.Context(), timer.Key{Kind: timer.Abandon, ID: r.active.ID}); err != nil {
		t.Errorf("the timer of an upload: %v", err)
	}
	r.audit.Store = r.Local.Blobs
	r.wantClean(t)
}

// A pass that fails at the same place each time starts from the beginning when the next one is due.
func TestFailingPassStartsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.audit = r.auditor(fsck.Options{SaveInterval: 1})
	r.audit.Store = failingStore{r.Local.Blobs}
	for _, c := range []struct {
		later time.Duration
		want  string // of the node count
	}{{time.Minute, "2"}, {5 * time.Hour, "9"}, {6 * time.Hour, "2"}} {
		r.Clock.Advance(c.later)
		r.exec(t, `UPDATE trees SET node_count = 9`)
		if _, err := r.audit.RunOnce(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("without its store the pass ended with %v", err)
		}
		if n := r.scalar(t, `SELECT node_count FROM trees`); n != c.want {
			t.Errorf("%v later the count of nodes is %s, want %s", c.later, n, c.want)
		}
	}
	r.audit.Store = r.Local.Blobs
	r.wantClean(t)
}

// bucketOf copies names and sizes of the rig's contents into a bucket for the auditor.
func (r *rig) bucketOf(t testing.TB) *blobtest.Bucket {
	t.Helper()
	fake := blobtest.NewBucket(t)
	b, err := s3.New(s3.Options{
		Endpoint: fake.Host, Bucket: "bucket", AccessKey: "a", SecretKey: "s", Insecure: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Local.Blobs.List(t.Context(), func(s blob.Entry) error {
		size, err := r.Local.Blobs.Stat(t.Context(), s.Name)
		fake.AddObject(s.Path, int64(size))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.audit.Store = b.Blobs
	return fake
}

// Matching contents are compared by listing; only others cost a request.
func TestContentsAreComparedByListing(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	for i := range 20 {
		r.put(t, fmt.Sprintf("/more-%d", i), fmt.Appendf(nil, "text %d", i))
	}
	fake := r.bucketOf(t)
	if found, _ := r.check(t, fsck.Scope{}); len(found) > 0 {
		t.Errorf("not clean: %v", found)
	}
	if heads, lists := fake.Requests("head"), fake.Requests("list"); heads != 0 || lists != 1+256 {
		t.Errorf("contents that agree took %d HEAD and %d lists; it should be a list of each shard and one of what is in none", heads, lists)
	}
	files := strings.Split(r.scalar(t, `SELECT GROUP_CONCAT(file) FROM blobs WHERE size < 12`), ",")
	fake.RemoveObject(blobPlace(files[0]))
	fake.AddObject(blobPlace(files[1]), 1)
	found, _ := r.check(t, fsck.Scope{})
	if len(found) != 2 || !strings.Contains(strings.Join(found, "\n"), "no such file") || !strings.Contains(strings.Join(found, "\n"), "| 1 bytes") {
		t.Errorf("found %v", found)
	}
	if n := fake.Requests("head"); n != 2*3 {
		t.Errorf("%d requests for two contents: one to be sure, and one for each of two looks", n)
	}
}

// sickStore is a store in which one content cannot be read or measured.
type sickStore struct {
	blob.Store
	sick string
}

func (s sickStore) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	if name == s.sick {
		return 0, &fs.PathError{Op: "read", Path: name, Err: syscall.EIO}
	}
	return s.Store.Stat(ctx, name)
}

func (s sickStore) Open(ctx context.Context, name string) (blob.Object, error) {
	if name == s.sick {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return s.Store.Open(ctx, name)
}

func (s sickStore) ListPage(ctx context.Context, shard, after string, limit int) ([]blob.Entry, bool, error) {
	page, more, err := s.Store.ListPage(ctx, shard, after, limit)
	return slices.DeleteFunc(page, func(e blob.Entry) bool { return e.Name == s.sick }), more, err
}

// An unreadable content is reported and the pass continues. A pass that reads no bytes does not
// mark it; the next one checks again.
func TestUnreadableContentIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	file := r.scalar(t, `SELECT file FROM blobs ORDER BY file LIMIT 1`)
	r.audit.Store = sickStore{r.audit.Store, file}
	found, _ := r.check(t, fsck.Scope{})
	if len(found) != 1 || !strings.Contains(found[0], "an error of reading") {
		t.Errorf("found %v", found)
	}
	if n := r.scalar(t, `SELECT COUNT(*) FROM blobs WHERE damaged_at > 0`); n != "0" {
		t.Errorf("%s are marked", n)
	}
}

// A content that was marked because its disk could not be read is read again by the background
// within a day, long before the scrub is due, and keeps the mark only while it cannot be read.
func TestScrubReadsMarkedContentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	file := r.scalar(t, `SELECT file FROM blobs WHERE size > 12`)
	r.audit = r.auditor(fsck.Options{Scrub: 30 * 24 * time.Hour})
	sound := r.audit.Store
	marked := func(store blob.Store, want string) {
		t.Helper()
		r.audit.Store = store
		read := r.audit.Counters.Scrubbed.Load()
		if _, err := r.audit.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := r.scalar(t, `SELECT COUNT(*) FROM blobs WHERE damaged_at > 0`); n != want {
			t.Errorf("%s are marked, want %s; %d bytes were read", n, want, r.audit.Counters.Scrubbed.Load()-read)
		}
	}
	r.Clock.Advance(31 * 24 * time.Hour)
	marked(sickStore{sound, file}, "1")
	r.Clock.Advance(25 * time.Hour)
	marked(sickStore{sound, file}, "1")
	r.Clock.Advance(time.Hour)
	marked(sound, "1") // not due
	r.Clock.Advance(24 * time.Hour)
	marked(sound, "0")
	r.check(t, fsck.Scope{Deep: true})
}

// awayStore is a store whose disk goes away at the first Open.
type awayStore struct {
	blob.Store
	away *atomic.Bool
}

func (s awayStore) Open(context.Context, string) (blob.Object, error) {
	s.away.Store(true)
	return nil, drive.Fail(drive.Unavailable)
}

// A scrub whose disk goes away ends with that error: it reports no blob, and none counts as read.
func TestScrubEndsWhenItsDiskGoesAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	r.audit = r.auditor(fsck.Options{Scrub: 30 * 24 * time.Hour})
	const read = `SELECT COALESCE(SUM(scrubbed_at), 0) FROM blobs`
	before := r.scalar(t, read)
	var away atomic.Bool
	r.audit.Store = awayStore{r.audit.Store, &away}
	r.audit.CheckMounted = func(context.Context) error {
		if away.Load() {
			return drive.Fail(drive.Unavailable)
		}
		return nil
	}
	r.Clock.Advance(31 * 24 * time.Hour)
	if _, err := r.audit.RunOnce(t.Context()); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("the pass ends with %v", err)
	}
	if n := r.scalar(t, `SELECT COUNT(*) FROM findings`); n != "0" {
		t.Errorf("%s findings are stored", n)
	}
	if after := r.scalar(t, read); after != before {
		t.Errorf("blobs count as read: scrubbed_at sums to %s, before %s", after, before)
	}
}

// A pass that reads bytes marks contents with disk errors, also without Repair, so that the next
// upload replaces them. An unmounted store marks nothing.
func TestReadErrorMarksBlob(t *testing.T) {
	t.Parallel()
	for _, scope := range []fsck.Scope{{Deep: true}, {Deep: true, Repair: true}} {
		r := newRig(t, uploadtest.Options{})
		file := r.scalar(t, `SELECT file FROM blobs WHERE size > 12`)
		r.audit.Store = sickStore{r.audit.Store, file}
		r.audit.CheckMounted = func(context.Context) error { return syscall.EIO }
		if _, err := r.audit.Check(t.Context(), scope); err == nil {
			t.Error("the pass does not say that the place is away")
		}
		if n := r.scalar(t, `SELECT COUNT(*) FROM blobs WHERE damaged_at > 0`); n != "0" {
			t.Errorf("%s are marked while the place is away", n)
		}
		r.audit.CheckMounted = nil
		r.check(t, scope)
		if marked := r.scalar(t, `SELECT file FROM blobs WHERE damaged_at > 0`); marked != file {
			t.Fatalf("marked is %q, want %s", marked, file)
		}
		v := r.Start(t, r.who, "/again", 5<<20)
		r.SendAll(t, r.who, v, r.data)
		r.complete(t, v)
		if string(r.Read(t, r.who, "/a")) != string(r.data) {
			t.Error("the file was not healed")
		}
	}
}
