package export

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
)

// A worker crashes at a database call, with or without the call succeeding, and another worker
// takes over after the lease. Then there is one sealed batch, every entry is accounted for, and no
// arrived entry is fetched again.
func TestWorkerSurvivesCrashAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := sqldbtest.NewKillSwitch(0, false)
	e := w.process(w.open(t, whole.Connector), "whole")
	w.create(t, e, w.manifest(t, "clean"))
	before := whole.Made.Load()
	w.finish(t, e)
	calls := whole.Made.Load() - before
	kills := depth.Pick(5, 20, 100)
	for i := range kills {
		in := fmt.Sprintf("in%03d", i)
		v := w.create(t, w.process(w.db, "maker"), w.manifest(t, in))
		at := 1 + rand.Int64N(calls)
		arrived := w.killAt(t, v, at)
		w.advance(lease.TTL + time.Second)
		heir := w.process(w.db, fmt.Sprint("heir", i))
		w.finish(t, heir)
		if got := w.get(t, heir, v.ID); got.State != Sealed || got.Collected != 7 || got.Failed != 3 {
			t.Fatalf("killed at call %d of %d: it is %s with %d + %d of %d: %s", at, calls, got.State, got.Collected, got.Failed, got.Total, got.Error)
		}
		for path, gets := range arrived {
			if w.requestsOf(path) != gets {
				t.Errorf("killed at call %d: %s had arrived and was fetched again", at, path)
			}
		}
		if n := w.eventCount(t, v.ID); n != 1 {
			t.Errorf("killed at call %d: %d records say that it was sealed", at, n)
		}
		_, files := w.download(t, heir, v.ID)
		if diff := cmp.Diff(manifestFiles, slices.Sorted(maps.Keys(files))); diff != "" {
			t.Errorf("killed at call %d: %s", at, diff)
		}
		if err := heir.Cancel(t.Context(), w.who, v.ID); err != nil {
			t.Fatal(err)
		}
		w.check(t)
	}
}

// killAt runs a process until it has made the given number of calls, and returns how often each
// arrived document was fetched.
func (w *world) killAt(t *testing.T, v View, calls int64) map[string]int {
	t.Helper()
	w.crashesAt(t, calls, func(dead *Exports) {
		if b, err := dead.queue.claim(t.Context()); err == nil && b != nil {
			dead.workers.work(t.Context(), b)
		}
	})
	rows, err := w.db.Query(t.Context(), "SELECT w.url FROM export_pins p JOIN export_wants w ON w.export_id = p.export_id AND w.n = p.n WHERE p.export_id = ? AND w.url <> ''", v.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	arrived := map[string]int{}
	for rows.Next() {
		var url string
		if err := rows.Scan(&url); err != nil {
			t.Fatal(err)
		}
		arrived[url[len(w.web.URL):]] = w.requestsOf(url[len(w.web.URL):])
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return arrived
}

// A worker that stalls beyond its lease, at any step, changes no row and publishes nothing.
func TestStaleWorkerChangesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"page", "stored", "arrived", "fetched", "saved", "frozen", "sealing"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			slow, heir := w.process(w.db, "slow"), w.process(w.db, "heir")
			v := w.create(t, slow, w.manifest(t, "in"))
			var still state
			var once sync.Once
			slow.testHook = func(at string) {
				if at != step {
					return
				}
				once.Do(func() {
					for w.get(t, heir, v.ID).State != Sealed { // a fetch of the slow worker may just have renewed the lease
						w.advance(lease.TTL + time.Second)
						w.finish(t, heir)
					}
					still = w.state(t)
				})
			}
			w.finish(t, slow)
			if still.sum == "" {
				t.Fatalf("there is no step %s", step)
			}
			if diff := cmp.Diff(still.sum, w.state(t).sum); diff != "" {
				t.Error(diff)
			}
			if got := w.get(t, heir, v.ID); got.State != Sealed || got.Collected != 7 {
				t.Errorf("it is %s with %d", got.State, got.Collected)
			}
			w.download(t, heir, v.ID)
			w.check(t)
		})
	}
}

// state is everything that a worker may change.
type state struct{ sum string }

func (w *world) state(t *testing.T) (s state) {
	t.Helper()
	for _, query := range []string{
		"SELECT state, epoch, collected, failed, bytes, etag, due_at, list_epoch FROM exports ORDER BY id",
		"SELECT n, blob_id, size, charged, 0, 0, 0, 0 FROM export_pins ORDER BY export_id, n",
		"SELECT n, reason, at, 0, 0, 0, 0, 0 FROM export_errors ORDER BY export_id, n",
		"SELECT epoch, n, LENGTH(body), 0, 0, 0, 0, 0 FROM export_lists ORDER BY export_id, epoch, n",
		"SELECT id, file, refs, 0, 0, 0, 0, 0 FROM blobs ORDER BY id", "SELECT finished, reserved, 0, 0, 0, 0, 0, 0 FROM ledgers",
	} {
		rows, err := w.db.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			row := make([]any, 8)
			for i := range row {
				row[i] = new(string)
			}
			if err := rows.Scan(row...); err != nil {
				t.Fatal(err)
			}
			for _, cell := range row {
				s.sum += *cell.(*string) + " "
			}
			s.sum += "\n"
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		_ = rows.Close()
	}
	return s
}

// Fifty pollers on two machines: never more than two batches run per machine.
func TestMachineRunsTwoBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.process(w.db, "maker")
	at := w.put(t, "/in/1.pdf", "one")
	for i := range 60 {
		if i == maxHeld {
			break
		}
		w.who.Admin = true
		w.create(t, maker, Request{Nodes: []drive.NodeID{at}, Priority: int64(i % 3)})
	}
	type claimed struct {
		b   *batch
		err error
	}
	for round := range 5 {
		all := make(chan claimed)
		for i := range 50 {
			e := w.process(w.db, fmt.Sprint("machine", i%2))
			go func() {
				b, err := e.queue.claim(t.Context())
				all <- claimed{b, err}
			}()
		}
		var got []*batch
		for range 50 {
			c := <-all
			if c.err != nil && !drive.IsKind(c.err, drive.Unavailable) {
				t.Error(c.err)
			}
			if c.b != nil {
				got = append(got, c.b)
			}
		}
		for _, machine := range []string{"machine0", "machine1"} {
			n := w.count(t, "SELECT COUNT(*) FROM exports WHERE state = 'running' AND machine = ? AND due_at > ?", machine, w.clock.Load())
			if n > perMachine {
				t.Fatalf("round %d: %s works on %d", round, machine, n)
			}
		}
		if len(got) != 2*perMachine {
			t.Errorf("round %d: %d batches were claimed", round, len(got))
		}
		for _, b := range got {
			if b.Priority != 2 && round < 3 {
				t.Errorf("a batch of priority %d went first", b.Priority)
			}
			maker.workers.work(t.Context(), b)
		}
	}
}

// An idle machine asks for a slow batch. Its worker returns the batch at the next save point and
// does not claim it again.
func TestSlowBatchIsHandedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, idle := w.process(w.db, "slow"), w.process(w.db, "idle")
	for i := range 2 * pageSize {
		w.put(t, fmt.Sprintf("/in/%04d.pdf", i), text(i))
	}
	v := w.create(t, slow, Request{Folder: w.folder(t, "/in")})
	b, err := slow.queue.claim(t.Context())
	if err != nil || b == nil {
		t.Fatal(err)
	}
	slow.testHook = func(step string) {
		if step != "saved" || b.Collected > pageSize {
			return
		}
		w.advance(20 * time.Minute) // for half of it
		if _, err := slow.queue.renewLease(t.Context(), b); err != nil {
			t.Error(err)
		}
		if err := idle.queue.requestSlow(t.Context()); err != nil {
			t.Error(err)
		}
	}
	err = slow.collector.collect(t.Context(), b, func() bool {
		yield, err := slow.queue.renewLease(t.Context(), b)
		return err == nil && yield
	})
	if err != errYield { //nolint:errorlint // it is that one
		t.Fatalf("it did not yield: %v", err)
	}
	if err := slow.queue.returnBatch(t.Context(), b, handoverBan); err != nil {
		t.Fatal(err)
	}
	if b, err := slow.queue.claim(t.Context()); b != nil || err != nil {
		t.Errorf("the slow machine took it again: %v", err)
	}
	w.finish(t, idle)
	if got := w.get(t, idle, v.ID); got.State != Sealed || got.Collected != 2*pageSize {
		t.Errorf("it is %s with %d", got.State, got.Collected)
	}
}
