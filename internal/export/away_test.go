package export

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// A document that this machine cannot reach is left to another machine. If no machine reaches it,
// the entry fails without hanging.
func TestUnreachableIsRetriedElsewhereThenFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cut := func(o *Options) {
		o.Fetch.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}
	}
	here, there := w.process(w.db, "here", cut), w.process(w.db, "there")
	w.finish(t, there) // it polled and found no work
	v := w.create(t, here, w.manifest(t, "in"))
	w.finish(t, here)
	got := w.get(t, here, v.ID)
	if got.State != Pending || got.Error != "unreachable" || got.Collected != 4 {
		t.Fatalf("it is %s with %d: %s", got.State, got.Collected, got.Error)
	}
	if b, err := here.queue.claim(t.Context()); b != nil || err != nil {
		t.Fatalf("the machine took it again at once: %v", err)
	}
	w.finish(t, there)
	if got := w.get(t, there, v.ID); got.State != Sealed || got.Collected != 7 || got.Failed != 3 {
		t.Errorf("elsewhere: it is %s with %d + %d", got.State, got.Collected, got.Failed)
	}
	v = w.create(t, here, w.manifest(t, "alone")) // no other machine is alive
	w.advance(time.Hour)
	for range maxTries + 1 { // within a minute
		w.finish(t, here)
		w.advance(20 * time.Second)
	}
	if got := w.get(t, here, v.ID); got.State != Sealed || got.Collected != 4 || got.Failed != 6 {
		t.Errorf("alone: it is %s with %d + %d: %s", got.State, got.Collected, got.Failed, got.Error)
	}
	w.check(t)
}

// fullStore is a store that reports its free space.
type fullStore struct {
	blob.Store
	free *atomic.Int64
}

// Free implements blob.Store.
func (n fullStore) Free(context.Context) (drive.ByteSize, error) {
	return drive.ByteSize(n.free.Load()), nil
}

// Below the limit nothing is fetched and the fetched documents of an aborted batch are evicted. A
// sealed batch keeps all.
func TestFullDiskPausesFetching(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var free atomic.Int64
	free.Store(100)
	broken := atomic.Bool{}
	serve := w.serve
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		if broken.Load() && r.URL.Path == "/second/2.pdf" {
			panic(http.ErrAbortHandler)
		}
		serve(rw, r)
	}
	e := w.process(w.db, "a", func(o *Options) { o.Store, o.MinFree = fullStore{w.store, &free}, 50 })
	first := w.create(t, e, w.manifest(t, "first"))
	w.finish(t, e)
	broken.Store(true)
	second := w.create(t, e, w.manifest(t, "second"))
	w.finish(t, e)
	if got := w.get(t, e, second.ID); got.State != Pending || got.Collected != 6 {
		t.Fatalf("the second is %s with %d", got.State, got.Collected)
	}
	free.Store(49)
	third := w.create(t, e, w.manifest(t, "third"))
	gets := w.requests()
	w.finish(t, e)
	if got := w.get(t, e, third.ID); got.State != Aborted || got.Error != "disk-full" || w.requests() != gets {
		t.Errorf("the third is %s: %s", got.State, got.Error)
	}
	if got := w.get(t, e, second.ID); got.Collected != 4 {
		t.Errorf("the second still has %d", got.Collected)
	}
	w.download(t, e, first.ID)
	w.check(t)
	free.Store(100)
	broken.Store(false)
	w.advance(time.Hour)
	w.finish(t, e)
	for _, v := range []View{second, third} {
		if got := w.get(t, e, v.ID); got.State != Sealed || got.Collected != 7 {
			t.Errorf("with room again it is %s with %d: %s", got.State, got.Collected, got.Error)
		}
		w.download(t, e, v.ID)
	}
	w.check(t)
}

// Each document checks the free space: a page of documents may be much larger than the space left.
func TestDiskFullWithinPagePausesFetching(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var free atomic.Int64
	free.Store(100)
	serve := w.serve
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		free.Store(49)
		serve(rw, r)
	}
	e := w.process(w.db, "a", func(o *Options) { o.Store, o.MinFree = fullStore{w.store, &free}, 50 })
	var list []Item
	for n := range 3 * parallel {
		list = append(list, Item{URL: w.url(fmt.Sprintf("/in/%d.pdf", n))})
	}
	v := w.create(t, e, Request{Name: "in", Manifest: list})
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Aborted || got.Error != "disk-full" || w.requests() > parallel {
		t.Errorf("it is %s: %s, after %d documents", got.State, got.Error, w.requests())
	}
	w.check(t)
}

// An outage of the database or the store counts no try of a batch or job. Errors of the work itself
// and crashes count.
func TestDatabaseOutageCountsNoTry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var faults sqldbtest.Faults
	var away, broken atomic.Bool
	db := w.open(t, faults.Connector)
	process := func(name string) *Exports {
		return w.process(db, name, func(o *Options) {
			o.Store = absentStore{w.store, &away}
			o.Drive = &memoryDrive{uploads: map[drive.UploadID]*memoryUpload{}, puts: map[string]int{}}
			hosts := o.Fetch.Hosts
			o.Fetch.Hosts = func() []string {
				if broken.Load() {
					panic("a defect")
				}
				return hosts()
			}
		})
	}
	tries := func() int64 {
		return w.count(t, "SELECT COALESCE(SUM(tries), 0) FROM exports") + w.count(t, "SELECT COALESCE(SUM(tries), 0) FROM export_jobs")
	}
	e, other := process("here"), process("there")

	v := w.create(t, e, w.manifest(t, "in"))
	for range maxTries + 1 { // the worker cannot store the outcome, and the next claimer noticed the outage
		b := w.claim(t, e)
		faults.FailAll(sqldbtest.Begin, nil)
		e.workers.work(t.Context(), b)
		if _, err := other.queue.claim(t.Context()); !drive.IsKind(err, drive.Unavailable) {
			t.Fatalf("claim: %v", err)
		}
		faults.Clear()
		w.advance(lease.TTL + time.Second)
		e, other = other, e
	}
	away.Store(true)
	for range maxTries + 1 {
		w.finish(t, e)
		if got := w.get(t, e, v.ID); got.State != Aborted || got.Error != reasonUnavailable {
			t.Fatalf("without a store the batch is %s: %s", got.State, got.Error)
		}
		w.advance(time.Hour)
	}
	if n := tries(); n != 0 {
		t.Errorf("%d tries were counted", n)
	}
	broken.Store(true)
	if w.finish(t, e); tries() != 1 {
		t.Errorf("%d tries were counted of a batch that has failed once", tries())
	}
	away.Store(false)
	broken.Store(false)
	w.advance(time.Hour)
	w.finish(t, e)

	if _, err := e.Materialise(t.Context(), w.who, v.ID, w.root, ""); err != nil {
		t.Fatal(err)
	}
	before := tries()
	for range maxTries + 1 {
		j, err := e.jobs.claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		faults.FailAll(sqldbtest.Begin, nil)
		e.jobs.work(t.Context(), j)
		faults.Clear()
		w.advance(lease.TTL + time.Second)
	}
	away.Store(true)
	for range maxTries + 1 {
		work, err := e.workers.claim(t.Context())
		if err != nil || work == nil {
			t.Fatalf("there is no job: %v", err)
		}
		work(t.Context())
		w.advance(time.Hour)
	}
	if n := tries() - before; n != 0 {
		t.Errorf("%d tries of the job were counted", n)
	}
	if _, err := e.jobs.claim(t.Context()); err != nil { // and its process crashes
		t.Fatal(err)
	}
	w.advance(lease.TTL + time.Second)
	away.Store(false)
	heir := process("heir")
	work, err := heir.workers.claim(t.Context())
	if err != nil || work == nil || tries()-before != 1 {
		t.Fatalf("%d tries were counted after a process has ended: %v", tries()-before, err)
	}
	work(t.Context())
	jobs, err := e.Jobs(t.Context(), w.who, v.ID)
	if err != nil || len(jobs) != 1 || jobs[0].State != "done" {
		t.Errorf("in the end the job is %+v, %v", jobs, err)
	}
	w.check(t)
}

// absentStore is a store with simulated outages.
type absentStore struct {
	blob.Store
	away *atomic.Bool
}

// Put implements blob.Store.
func (a absentStore) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	if a.away.Load() {
		return blob.Part{}, drive.Fail(drive.Unavailable)
	}
	return a.Store.Put(ctx, name, body)
}

// Open implements blob.Store.
func (a absentStore) Open(ctx context.Context, name string) (blob.Object, error) {
	if a.away.Load() {
		return nil, drive.Fail(drive.Unavailable)
	}
	return a.Store.Open(ctx, name)
}

// Stat implements blob.Store.
func (a absentStore) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	if a.away.Load() {
		return 0, drive.Fail(drive.Unavailable)
	}
	return a.Store.Stat(ctx, name)
}
