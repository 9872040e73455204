package export

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/instance/lease"
	"smartdrive/internal/engine/sqldb/sqldbtest"
)

// A document that this machine does not get at is left to another one; when no machine gets it, it
// is a row, and never a hang.
func TestWhatIsUnreachableIsTriedElsewhereAndThenFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cut := func(o *Options) {
		o.Fetch.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}
	}
	here, there := w.process(w.db, "here", cut), w.process(w.db, "there")
	w.finish(t, there) // it has looked for work, and found none
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
	v = w.create(t, here, w.manifest(t, "alone")) // nobody else is there
	w.pass(time.Hour)
	for range maxTries + 1 { // within a minute
		w.finish(t, here)
		w.pass(20 * time.Second)
	}
	if got := w.get(t, here, v.ID); got.State != Sealed || got.Collected != 4 || got.Failed != 6 {
		t.Errorf("alone: it is %s with %d + %d: %s", got.State, got.Collected, got.Failed, got.Error)
	}
	w.check(t)
}

// narrow is a store that says how much room it has.
type narrow struct {
	blob.Store
	free *atomic.Int64
}

// Free implements blob.Store.
func (n narrow) Free(context.Context) (drive.ByteSize, error) {
	return drive.ByteSize(n.free.Load()), nil
}

// Below the limit nothing is fetched, what has been fetched for an aborted batch is given up, and a
// sealed one keeps everything.
func TestAFullDiskPausesFetching(t *testing.T) {
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
	e := w.process(w.db, "a", func(o *Options) { o.Store, o.MinFree = narrow{w.store, &free}, 50 })
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
	gets := w.asked()
	w.finish(t, e)
	if got := w.get(t, e, third.ID); got.State != Aborted || got.Error != "disk-full" || w.asked() != gets {
		t.Errorf("the third is %s: %s", got.State, got.Error)
	}
	if got := w.get(t, e, second.ID); got.Collected != 4 {
		t.Errorf("the second still has %d", got.Collected)
	}
	w.download(t, e, first.ID)
	w.check(t)
	free.Store(100)
	broken.Store(false)
	w.pass(time.Hour)
	w.finish(t, e)
	for _, v := range []View{second, third} {
		if got := w.get(t, e, v.ID); got.State != Sealed || got.Collected != 7 {
			t.Errorf("with room again it is %s with %d: %s", got.State, got.Collected, got.Error)
		}
		w.download(t, e, v.ID)
	}
	w.check(t)
}

// Each document asks for room: a page of them may be many times what is left.
func TestADiskThatFillsUpWithinAPagePausesFetching(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var free atomic.Int64
	free.Store(100)
	serve := w.serve
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		free.Store(49)
		serve(rw, r)
	}
	e := w.process(w.db, "a", func(o *Options) { o.Store, o.MinFree = narrow{w.store, &free}, 50 })
	var list []Item
	for n := range 3 * parallel {
		list = append(list, Item{URL: w.url(fmt.Sprintf("/in/%d.pdf", n))})
	}
	v := w.create(t, e, Request{Name: "in", Manifest: list})
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Aborted || got.Error != "disk-full" || w.asked() > parallel {
		t.Errorf("it is %s: %s, after %d documents", got.State, got.Error, w.asked())
	}
	w.check(t)
}

// While the database or the store is away no try of a batch or a job is used up, however often that
// is; what is wrong with the work itself counts, and so does a process that has ended.
func TestNoTryIsUsedUpWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var faults sqldbtest.Faults
	var away, broken atomic.Bool
	db := w.open(t, faults.Connector)
	process := func(name string) *Exports {
		return w.process(db, name, func(o *Options) {
			o.Store = absent{w.store, &away}
			o.Drive = &shelf{uploads: map[drive.UploadID]*shelved{}, puts: map[string]int{}}
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
	for range maxTries + 1 { // the worker cannot say how it ended, and whoever is next has seen why
		b := w.claim(t, e)
		faults.FailAll(sqldbtest.Begin, nil)
		e.workers.work(t.Context(), b)
		if _, err := other.queue.claim(t.Context()); !drive.IsKind(err, drive.Unavailable) {
			t.Fatalf("claim: %v", err)
		}
		faults.Clear()
		w.pass(lease.Length + time.Second)
		e, other = other, e
	}
	away.Store(true)
	for range maxTries + 1 {
		w.finish(t, e)
		if got := w.get(t, e, v.ID); got.State != Aborted || got.Error != reasonUnavailable {
			t.Fatalf("without a store the batch is %s: %s", got.State, got.Error)
		}
		w.pass(time.Hour)
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
	w.pass(time.Hour)
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
		w.pass(lease.Length + time.Second)
	}
	away.Store(true)
	for range maxTries + 1 {
		work, err := e.workers.claim(t.Context())
		if err != nil || work == nil {
			t.Fatalf("there is no job: %v", err)
		}
		work(t.Context())
		w.pass(time.Hour)
	}
	if n := tries() - before; n != 0 {
		t.Errorf("%d tries of the job were counted", n)
	}
	if _, err := e.jobs.claim(t.Context()); err != nil { // and its process ends
		t.Fatal(err)
	}
	w.pass(lease.Length + time.Second)
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

// absent is a store that may be away.
type absent struct {
	blob.Store
	away *atomic.Bool
}

// Put implements blob.Store.
func (a absent) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	if a.away.Load() {
		return blob.Part{}, drive.Fail(drive.Unavailable)
	}
	return a.Store.Put(ctx, name, body)
}

// Open implements blob.Store.
func (a absent) Open(ctx context.Context, name string) (blob.Object, error) {
	if a.away.Load() {
		return nil, drive.Fail(drive.Unavailable)
	}
	return a.Store.Open(ctx, name)
}

// Stat implements blob.Store.
func (a absent) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	if a.away.Load() {
		return 0, drive.Fail(drive.Unavailable)
	}
	return a.Store.Stat(ctx, name)
}
