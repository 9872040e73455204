package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/testkit/depth"
)

// mixed returns a parcel with all outcomes, which takes three transactions.
func mixed(prefix string) *parcel {
	return newParcel("acme").lines("a.ndjson", docs(prefix+"-a", batchSize+10)...).add("a.pdf", 0, []byte("%PDF "+prefix)).
		add("bad.ndjson", 2, []byte("{\n{\n")).lines("b.ndjson", docs(prefix+"-b", batchSize)...).
		lines("c.ndjson", doc(prefix+"-a-0000", 1), doc(prefix+"-a-0001", 77))
}

// mixedSums is the expected sums of a mixed parcel.
const mixedSums = "done 414=410+2+1+1"

// TestAWorkerMayBeKilledAnywhere kills a worker at a database call, with or without the call taking
// effect. Another worker continues after the lease, and each document is stored and counted once.
func TestAWorkerMayBeKilledAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := sqldbtest.NewKillSwitch(0, false)
	in := w.process(w.open(t, whole.Connector), "whole")
	w.send(t, mixed("clean"))
	before := whole.Made.Load()
	w.finish(t, in)
	calls := whole.Made.Load() - before
	kills := depth.Pick(3, 10, 40)
	for i := range kills {
		p := mixed(fmt.Sprintf("k%03d", i))
		w.send(t, p)
		at := 1 + int64(i)*calls/int64(kills) + rand.Int64N(max(calls/int64(kills), 1))
		life := sqldbtest.NewKillSwitch(0, i%2 == 1)
		db := w.open(t, life.Connector)
		dead := w.process(db, "dead")
		life.CutAt(at)
		if b, err := dead.queue.claim(t.Context()); err == nil && b != nil {
			dead.workers.work(t.Context(), b)
		}
		_ = db.Close() // the end of a process rolls back open transactions
		w.pass(lease.TTL + time.Second)
		w.finish(t, w.process(w.db, fmt.Sprint("heir", i)))
		if got := sums(w.bundle(t, p)); got != mixedSums {
			t.Fatalf("killed at call %d of %d: %s (%s)", at, calls, got, w.bundle(t, p).Detail)
		}
	}
	w.check(t)
}

// TestALatePDFOutlivesItsWorker kills a worker while it sets a late PDF. The next worker sets it or
// finds it set.
func TestALatePDFOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := sqldbtest.NewKillSwitch(0, false)
	in := w.process(w.open(t, whole.Connector), "whole")
	late := func(number string) *parcel {
		w.send(t, newParcel("acme").lines("a.ndjson", doc(number, 1)))
		w.finish(t, w.process(w.db, "before "+number))
		p := newParcel("acme").lines("a.ndjson", doc(number, 1)).add("a.pdf", 0, []byte("%PDF "+number))
		w.send(t, p)
		return p
	}
	late("whole")
	before := whole.Made.Load()
	w.finish(t, in)
	calls := whole.Made.Load() - before
	for at := int64(1); at <= calls; at += 3 {
		p := late(fmt.Sprintf("k%03d", at))
		w.killed(t, at, at%2 == 0)
		w.pass(lease.TTL + time.Second)
		w.finish(t, in)
		wantSums(t, w.bundle(t, p), "done 1=0+0+1+0")
	}
	if n := w.count(t, "SELECT COUNT(*) FROM documents WHERE pdf_id IS NULL"); n != 0 {
		t.Errorf("%d documents have no PDF", n)
	}
	w.check(t)
}

// TestStoppedWorkerWritesNothing checks that a worker that stalls beyond its lease, at any
// step, changes nothing.
func TestStoppedWorkerWritesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"compared", "checked", "stored", "flushed"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			slow, heir := w.process(w.db, "slow"), w.process(w.db, "heir")
			p := mixed("x")
			w.send(t, p)
			var once sync.Once
			stood := false
			slow.halt = func(at string) {
				if at == step {
					once.Do(func() {
						stood = true
						for w.bundle(t, p).State != Done { // a heartbeat of the stalled worker may have renewed the lease
							w.pass(lease.TTL + time.Second)
							w.finish(t, heir)
						}
					})
				}
			}
			w.finish(t, slow)
			if !stood {
				t.Fatalf("there is no step %s", step)
			}
			wantSums(t, w.bundle(t, p), mixedSums)
			if got := w.bundle(t, p).Attempts; got != 2 {
				t.Errorf("it was taken %d times", got)
			}
			w.check(t)
		})
	}
}

// TestConsumersMeet runs two workers on bundles with the same documents: the first one accepts a
// document, the other one counts a duplicate.
func TestConsumersMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const parcels, each = 6, 150
	var all []*parcel
	for range parcels {
		p := newParcel("acme").lines("a.ndjson", docs("same", each)...)
		all = append(all, p)
		w.send(t, p)
	}
	var working sync.WaitGroup
	for i := range 3 {
		in := w.process(w.db, fmt.Sprint("meets", i))
		working.Go(func() {
			for range 50 {
				if err := in.Drain(t.Context()); err != nil && !drive.IsKind(err, drive.Unavailable) {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	last := w.process(w.db, "last")
	for range 3 {
		w.pass(5 * time.Minute)
		w.finish(t, last)
	}
	var sum Bundle
	for _, p := range all {
		b := w.bundle(t, p)
		if b.State != Done {
			t.Errorf("it is %s", sums(b))
		}
		sum.Accepted += b.Accepted
		sum.Duplicate += b.Duplicate
	}
	if sum.Accepted != each || sum.Duplicate != (parcels-1)*each {
		t.Errorf("%d accepted, %d duplicates", sum.Accepted, sum.Duplicate)
	}
	w.check(t)
}

// forgetful loses events: all while the broker is down, and one in a hundred afterwards.
type forgetful struct {
	stream.Publisher
	down atomic.Bool
	rng  *rand.Rand
}

// Append implements stream.Publisher.
func (f *forgetful) Append(ctx context.Context, tx *sqldb.Tx, records ...stream.Record) error {
	if f.down.Load() || f.rng.IntN(100) == 0 {
		return nil
	}
	return f.Publisher.Append(ctx, tx, records...)
}

// TestNothingIsLostAndNothingCountsTwice sends each set of documents in three bundles, out of
// order, meta.json sometimes first. Workers are killed at any call, the broker is down for an hour,
// and the arrival of every hundredth bundle is not reported. Five minutes after the last bundle,
// each document must be stored once and counted correctly. Time is virtual.
func TestNothingIsLostAndNothingCountsTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(7, 11))
	events := &forgetful{Publisher: w.tells.opt.Events, rng: rng}
	w.tells.opt.Events = events
	parcels, each := 40, 5
	if testing.Short() {
		parcels = 12
	}
	var sent []*parcel
	for i := range parcels {
		for range 3 { // the same documents, each time in a new bundle
			sent = append(sent, newParcel("acme").lines("a.ndjson", docs(fmt.Sprintf("p%03d", i), each)...))
		}
	}
	rng.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
	for i, p := range sent {
		events.down.Store(i < len(sent)/2) // for the first hour
		w.deaf.Store(rng.IntN(100) == 0)
		if rng.IntN(4) == 0 {
			w.sendMeta(t, p)
			w.sendMembers(t, p)
		} else {
			w.sendMembers(t, p)
			w.sendMeta(t, p)
		}
		w.deaf.Store(i == len(sent)-2)
		w.pass(2 * time.Hour / time.Duration(len(sent)))
		if i%4 == 0 {
			w.killed(t, 1+rng.Int64N(60), rng.IntN(2) == 0)
		}
		if i%50 == 0 {
			if err := w.tells.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	heir := w.process(w.db, "heir")
	for range 5 { // minutes
		w.pass(time.Minute)
		w.finish(t, heir)
		if err := heir.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.finish(t, heir)
	}
	var accepted, duplicate int64
	for _, p := range sent {
		b := w.bundle(t, p)
		if b.State != Done {
			t.Errorf("bundle %s is %s", p.ID, sums(b))
		}
		accepted += b.Accepted
		duplicate += b.Duplicate
	}
	if want := int64(parcels * each); accepted != want || duplicate != 2*want || w.count(t, "SELECT COUNT(*) FROM documents") != want {
		t.Errorf("%d accepted and %d duplicates of %d documents sent three times", accepted, duplicate, want)
	}
	w.check(t)
}

// killed runs a process whose database is cut off at a call, by number. If lost is true, that call
// still takes effect and only its reply is lost.
func (w *world) killed(t testing.TB, calls int64, lost bool) {
	t.Helper()
	life := sqldbtest.NewKillSwitch(0, lost)
	db := w.open(t, life.Connector)
	life.CutAt(calls)
	_ = w.process(db, "dead").Drain(t.Context())
	_ = db.Close()
}
