package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
)

// memoryBucket is a Bucket in memory.
type memoryBucket struct {
	mu      sync.Mutex
	pending map[string]map[string]map[int][]byte // by name and upload
	objects map[string][]byte
	made    int            // number of uploads
	puts    map[string]int // number of Puts per part
	publish int            // number of published objects
}

func newMemoryBucket() *memoryBucket {
	return &memoryBucket{pending: map[string]map[string]map[int][]byte{}, objects: map[string][]byte{}, puts: map[string]int{}}
}

// Find implements Bucket.
func (r *memoryBucket) Find(_ context.Context, name string) (drive.ByteSize, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, ok := r.objects[name]
	if !ok {
		return 0, drive.Fail(drive.NotFound)
	}
	return drive.ByteSize(len(raw)), nil
}

// Begin implements Bucket.
func (r *memoryBucket) Begin(_ context.Context, name, _ string) (string, map[int]drive.ByteSize, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sizes := map[int]drive.ByteSize{}
	for id, parts := range r.pending[name] {
		for n, raw := range parts {
			sizes[n] = drive.ByteSize(len(raw))
		}
		return id, sizes, nil
	}
	r.made++
	id := fmt.Sprint("upload", r.made)
	r.pending[name] = map[string]map[int][]byte{id: {}}
	return id, sizes, nil
}

// Put implements Bucket.
func (r *memoryBucket) Put(_ context.Context, name, upload string, n int, size drive.ByteSize, body io.Reader) error {
	raw, err := io.ReadAll(body)
	if err != nil || drive.ByteSize(len(raw)) != size {
		return fmt.Errorf("%d bytes of %d: %w", len(raw), size, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[name][upload] == nil {
		return drive.Fail(drive.NotFound)
	}
	r.pending[name][upload][n] = raw
	r.puts[fmt.Sprint(name, n)]++
	return nil
}

// Publish implements Bucket.
func (r *memoryBucket) Publish(_ context.Context, name, upload string, count int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.objects[name]; there {
		return nil
	}
	var whole []byte
	for n := range count {
		part, ok := r.pending[name][upload][n]
		if !ok {
			return drive.Fail(drive.NotFound)
		}
		whole = append(whole, part...)
	}
	r.publish++
	r.objects[name] = whole
	delete(r.pending, name)
	return nil
}

// Remove implements Bucket.
func (r *memoryBucket) Remove(_ context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.objects, name)
	delete(r.pending, name)
	return nil
}

// List implements Bucket.
func (r *memoryBucket) List(_ context.Context, fn func(string) error) error {
	r.mu.Lock()
	var names []string
	for name := range r.objects {
		names = append(names, name)
	}
	for name := range r.pending {
		names = append(names, name)
	}
	r.mu.Unlock()
	for _, name := range names {
		if err := fn(name); err != nil {
			return err
		}
	}
	return nil
}

func withBucket(r *memoryBucket) func(*Options) { return func(o *Options) { o.Bucket = r } }

func (w *world) bucketWorker(r *memoryBucket, name string) *Exports {
	e := w.process(w.db, name, withBucket(r))
	e.publisher.minPart = shelfPart
	return e
}

// The zip is published once and each part is sent once, wherever the worker crashes. The object is
// deleted with its batch.
func TestBucketJobSurvivesCrashAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.process(w.db, "maker")
	for at := int64(1); ; at += int64(depth.Pick(30, 10, 3)) {
		v := w.create(t, maker, w.manifest(t, fmt.Sprint("in", at)))
		w.finish(t, maker)
		want, _ := w.download(t, maker, v.ID)
		r := newMemoryBucket()
		job, err := w.bucketWorker(r, "asker").MaterialiseInBucket(t.Context(), w.who, v.ID)
		if err != nil {
			t.Fatal(err)
		}
		died := w.crashesAt(t, at, func(dead *Exports) {
			dead.publisher.minPart = shelfPart
			doJob(t, dead)
		}, withBucket(r))
		w.advance(lease.TTL + time.Second)
		heir := w.bucketWorker(r, "heir")
		if err := heir.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(r.objects) != 1 || len(r.pending) != 0 || r.publish != 1 || !bytes.Equal(r.objects[job.Object], want) {
			t.Fatalf("killed at call %d: %d objects, %d unfinished, %d bytes of %d in %s", at, len(r.objects), len(r.pending), len(r.objects[job.Object]), len(want), job.Object)
		}
		for part, n := range r.puts {
			if n != 1 {
				t.Errorf("killed at call %d: part %s was sent %d times", at, part, n)
			}
		}
		if err := heir.Cancel(t.Context(), w.who, v.ID); err != nil {
			t.Fatal(err)
		}
		if len(r.objects) != 0 {
			t.Fatalf("killed at call %d: the object has outlived its batch", at)
		}
		if !died {
			return
		}
	}
}

// A batch has at most one object, and the objects of an account stay within its quota.
func TestBucketObjectsAreLimitedByQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newMemoryBucket()
	e := w.bucketWorker(r, "a")
	first, second := w.create(t, e, w.manifest(t, "in")), w.create(t, e, w.manifest(t, "next"))
	w.finish(t, e)
	size := w.get(t, e, first.ID).Size
	w.limit(t, size+size/2)
	one, err := e.MaterialiseInBucket(t.Context(), w.who, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := e.MaterialiseInBucket(t.Context(), w.who, first.ID); err != nil || again != one {
		t.Errorf("asked again it is %+v: %v", again, err)
	}
	if _, err := e.MaterialiseInBucket(t.Context(), w.who, second.ID); !drive.IsKind(err, drive.Quota) {
		t.Errorf("the second is above what the account may have: %v", err)
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs, err := e.Jobs(t.Context(), w.who, first.ID)
	if err != nil || len(jobs) != 1 || jobs[0].State != "done" || !jobs[0].Folder.IsZero() || !strings.HasSuffix(jobs[0].Object, "/disk.zip") {
		t.Errorf("the jobs are %+v: %v", jobs, err)
	}
	if err := e.Cancel(t.Context(), w.who, first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := e.MaterialiseInBucket(t.Context(), w.who, second.ID); err != nil {
		t.Errorf("after the first has gone: %v", err)
	}
	if err := e.DeleteAccount(t.Context(), w.who.Account); err != nil {
		t.Fatal(err)
	}
	if len(r.objects)+len(r.pending) != 0 {
		t.Errorf("of an account that is gone there are %d objects", len(r.objects))
	}
	if _, err := w.process(w.db, "bare").MaterialiseInBucket(t.Context(), w.who, second.ID); !drive.IsKind(err, drive.Forbidden) {
		t.Errorf("without a bucket: %v", err)
	}
}

// A stalled worker publishes after its batch was withdrawn: Purge deletes that object, and no
// objects of others.
func TestSweepRemovesOrphanObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newMemoryBucket()
	e := w.bucketWorker(r, "a")
	gone, kept := w.create(t, e, w.manifest(t, "in")), w.create(t, e, w.manifest(t, "next"))
	w.finish(t, e)
	for _, v := range []View{kept, gone} {
		if _, err := e.MaterialiseInBucket(t.Context(), w.who, v.ID); err != nil {
			t.Fatal(err)
		}
	}
	other := w.bucketWorker(r, "b")
	e.testHook = func(step string) {
		if step != "begun" {
			return
		}
		if err := other.Cancel(t.Context(), w.who, gone.ID); err != nil {
			t.Error(err)
		}
		e.testHook = func(string) {}
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := objectName(w.who.Account, gone.ID, "disk.zip")
	r.objects[late], r.objects["readme.txt"], r.objects["a/b/c"] = []byte("late"), nil, nil
	young, old := drive.NewID[drive.ExportID](), drive.NewID[drive.ExportID]() // batches without a row here
	binary.BigEndian.PutUint64(young[:], uint64(w.clock.Load())<<16|0x7000)    // a UUIDv7 begins with its time
	binary.BigEndian.PutUint64(old[:], 1<<16|0x7000)
	for _, name := range []string{
		objectName(w.who.Account, young, "x.zip"), objectName(w.who.Account, old, "x.zip"), objectName(drive.NewID[drive.AccountID](), old, "x.zip"),
	} {
		r.objects[name] = nil
	}
	if err := e.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, is := r.objects[objectName(w.who.Account, old, "x.zip")]; is {
		t.Error("that of a batch that is long gone is left")
	}
	if len(r.objects) != 5 || r.objects[late] != nil || len(r.objects[objectName(w.who.Account, kept.ID, "disk.zip")]) == 0 {
		t.Errorf("%d objects are left", len(r.objects))
	}
}

// Work of a disabled user stops at the next save point and resumes when the user is enabled.
func TestWorkOfDisabledUserWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newMemoryBucket()
	e := w.bucketWorker(r, "a")
	for i := range 2*pageSize + 1 {
		w.put(t, fmt.Sprintf("/in/%04d.pdf", i), text(i))
	}
	v := w.create(t, e, Request{Folder: w.folder(t, "/in")})
	b, err := e.queue.claim(t.Context())
	if err != nil || b == nil {
		t.Fatal(err)
	}
	saved := 0
	e.testHook = func(step string) {
		if step == "saved" {
			if saved++; saved == 1 {
				w.enable(t, false)
			}
		}
	}
	err = e.collector.collect(t.Context(), b, func() bool { return e.userInactive(t.Context(), w.who.User) })
	if err != errYield || saved != 1 { //nolint:errorlint // it is that one
		t.Fatalf("after %d save points: %v", saved, err)
	}
	w.advance(lease.TTL + time.Second) // the rest of the way through work
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Aborted || got.Error != reasonInactive || got.Collected != pageSize {
		t.Fatalf("it is %s with %d: %s", got.State, got.Collected, got.Error)
	}
	w.advance(waitForUser)
	w.finish(t, e)
	w.enable(t, true)
	w.advance(waitForUser)
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Sealed || got.Collected != 2*pageSize+1 {
		t.Fatalf("enabled again it is %s with %d", got.State, got.Collected)
	}
	if _, err := e.MaterialiseInBucket(t.Context(), w.who, v.ID); err != nil {
		t.Fatal(err)
	}
	w.enable(t, false)
	if err := e.Drain(t.Context()); err != nil || len(r.objects) != 0 {
		t.Errorf("a job of a disabled user: %d objects, %v", len(r.objects), err)
	}
	w.enable(t, true)
	w.advance(waitForUser)
	if err := e.Drain(t.Context()); err != nil || len(r.objects) != 1 {
		t.Errorf("a job of an enabled user: %d objects, %v", len(r.objects), err)
	}
}

func (w *world) enable(t *testing.T, active bool) {
	t.Helper()
	state := account.Disabled
	if active {
		state = account.Active
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.users.Update(ctx, tx, w.who.User, account.Patch{State: state})
		return err
	})
}
