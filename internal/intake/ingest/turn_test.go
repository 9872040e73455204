package ingest

import (
	"context"
	"database/sql/driver"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestAccountsTakeTurnsWithBundles checks that an account with one bundle waits for one bundle of
// an account that sent many before, and that the latter has the rest of the time.
func TestAccountsTakeTurnsWithBundles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := w.who.Account
	for range 5 {
		w.send(t, newParcel("acme").lines("a.ndjson", docs("many", 1)...))
	}
	w.addAccount(t)
	w.pass(time.Second)
	w.send(t, newParcel("acme").lines("a.ndjson", docs("one", 1)...))
	in := w.process(w.db, "1")
	var order []bool
	for {
		b, err := in.queue.claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			break
		}
		order = append(order, b.Account == many)
		in.workers.work(t.Context(), b)
	}
	if len(order) != 6 || !order[0] || order[1] {
		t.Errorf("turns of the account with many bundles: %v", order)
	}
}

// TestAnAccountWithoutARunningBundleGoesFirst checks that a second worker prefers the account that
// has no worker yet, although it is another one's turn.
func TestAnAccountWithoutARunningBundleGoesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy := w.who.Account
	w.send(t, newParcel("acme").lines("a.ndjson", docs("a", 1)...))
	w.send(t, newParcel("acme").lines("a.ndjson", docs("b", 1)...))
	first, err := w.process(w.db, "1").queue.claim(t.Context())
	if err != nil || first.Account != busy {
		t.Fatalf("claimed %v, error %v", first, err)
	}
	w.addAccount(t)
	w.send(t, newParcel("acme").lines("a.ndjson", docs("c", 1)...))
	second, err := w.process(w.db, "2").queue.claim(t.Context())
	if err != nil || second.Account != w.who.Account {
		t.Fatalf("claimed %v, error %v; want a bundle of the account that has none running", second, err)
	}
	third, err := w.process(w.db, "3").queue.claim(t.Context())
	if err != nil || third == nil || third.Account != busy {
		t.Fatalf("claimed %v, error %v; want the second bundle of the busy account", third, err)
	}
}

// TestALongBundleLetsOthersGoFirst checks that a long bundle stops at a save point after its slice
// while another account waits and no worker is idle, and that it then ends with correct counts, in
// one attempt.
func TestALongBundleLetsOthersGoFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		idle int   // workers
		want int64 // documents of the long bundle when the third batch of all bundles was stored
	}{
		{"no idle worker", 0, 2 * batchSize},
		{"an idle worker", 1, 3 * batchSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			long := newParcel("acme").lines("a.ndjson", docs("long", 3*batchSize+7)...)
			w.send(t, long)
			w.addAccount(t)
			short := newParcel("acme").lines("a.ndjson", docs("short", 1)...)
			w.send(t, short)
			in := w.process(w.db, "1")
			for range cap(in.workers.slots) - c.idle {
				in.workers.slots <- struct{}{}
			}
			var got int64
			stored := 0
			in.halt = func(step string) {
				if step != "stored" {
					return
				}
				stored++
				if w.pass(turnSlice); stored == 3 {
					got = w.bundle(t, long).Accepted
				}
			}
			w.finish(t, in)
			if got != c.want {
				t.Errorf("the long bundle has %d documents after the third batch, want %d", got, c.want)
			}
			wantSums(t, w.bundle(t, short), "done 1=1+0+0+0")
			wantSums(t, w.bundle(t, long), "done 607=607+0+0+0")
			if n := w.bundle(t, long).Attempts; n != 1 {
				t.Errorf("turns count as %d attempts, want 1", n)
			}
			w.check(t)
		})
	}
}

// crowd stores bundles of n other accounts that all wait until a time.
func (w *world) crowd(t testing.TB, n int, until drive.Time) {
	t.Helper()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		for range n {
			if _, err := tx.Exec(ctx, `INSERT INTO bundles (id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail,
				worker, due_at, sealed_at, waits_until) VALUES (?, ?, 'acme', '', ?, '', '', 'sealed', '', '', '', ?, 0, 0)`,
				drive.NewID[drive.BundleID](), drive.NewID[drive.AccountID](), drive.NewID[drive.NodeID](), until); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestAccountsThatWaitDelayNoClaim checks that the number of statements of a claim does not grow
// with the accounts whose bundles all wait, and that an account without a running bundle goes first
// even if a claim does not look at all accounts.
func TestAccountsThatWaitDelayNoClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := &sqldbtest.Counter{}
	in := w.process(w.open(t, calls.Connector), "1")
	w.crowd(t, 4*maxLooks, drive.Time(start).Add(time.Hour))
	claim := func(most int) *row {
		t.Helper()
		before := calls.Count(sqldbtest.Query)
		b, err := in.queue.claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := calls.Count(sqldbtest.Query) - before; n > most {
			t.Errorf("a claim asks %d times, want at most %d", n, most)
		}
		return b
	}
	if b := claim(1); b != nil {
		t.Errorf("claimed %v of an account that waits", b)
	}
	many := w.who.Account
	for range 3 {
		w.send(t, newParcel("acme").lines("a.ndjson", docs("many", 1)...))
	}
	w.addAccount(t)
	w.pass(time.Second)
	w.crowd(t, 4*maxLooks, drive.Time(start).Add(time.Hour))
	w.send(t, newParcel("acme").lines("a.ndjson", docs("one", 1)...))
	var order []bool
	for range 4 {
		b := claim(maxLooks + 6)
		if b == nil {
			t.Fatalf("a bundle that is due is not claimed after %v", order)
		}
		order = append(order, b.Account == many)
		before := calls.Count(sqldbtest.Query)
		others, err := in.queue.othersWait(t.Context(), drive.Time(w.clock.Load()))
		if n := calls.Count(sqldbtest.Query) - before; n != 1 || others != (len(order) == 1) || err != nil {
			t.Errorf("after %v others wait: %v, error %v, asked %d times", order, others, err, n)
		}
	}
	if want := []bool{true, false, true, true}; !slices.Equal(order, want) {
		t.Errorf("turns of the account with many bundles: %v, want %v", order, want)
	}
}

// TestALeaseBeginsWhenItIsWritten checks that the time that a worker needs to find a bundle does
// not shorten its lease.
func TestALeaseBeginsWhenItIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newParcel("acme").lines("a.ndjson", docs("a", 1)...)
	w.send(t, p)
	w.crowd(t, maxLooks, drive.Time(start).Add(time.Hour))
	var written atomic.Int64
	slow := w.open(t, func(source string) (driver.Connector, error) {
		return sqldbtest.Connect(source, func(call sqldbtest.Call, do func() error) error {
			switch call {
			case sqldbtest.Query:
				w.pass(time.Second)
			case sqldbtest.Exec:
				written.Store(w.clock.Load())
			}
			return do()
		})
	})
	in := w.process(slow, "1")
	in.queue.last = w.who.Account
	b, err := in.queue.claim(t.Context())
	if err != nil || b == nil {
		t.Fatalf("claimed %v, error %v", b, err)
	}
	due := w.count(t, "SELECT due_at FROM bundles WHERE id = ?", b.ID)
	if want := written.Load() + lease.TTL.Milliseconds(); due != want {
		t.Errorf("the lease ends %d ms after it was written, want %d", due-written.Load(), want-written.Load())
	}
}

// TestProgressResetsTheBackoff checks that a bundle that stored documents before a component failed
// pauses as after a first attempt, and otherwise longer with each attempt.
func TestProgressResetsTheBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := &ailing{Store: w.store}
	in := w.process(w.db, "1", func(o *Options) { o.Store = store })
	p := newParcel("acme").lines("a.ndjson", docs("a", batchSize)...).lines("b.ndjson", docs("b", 1)...)
	w.send(t, p)
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE bundles SET attempts = 2")
		return err
	})
	in.halt = func(step string) {
		if step == "stored" {
			store.ill.Store(true)
		}
	}
	for _, want := range []time.Duration{5 * time.Second, 40 * time.Second, 80 * time.Second} {
		w.finish(t, in)
		if got := time.Duration(w.count(t, "SELECT due_at FROM bundles")-w.clock.Load()) * time.Millisecond; got != want {
			t.Errorf("it pauses for %v after %d attempts, want %v", got, w.bundle(t, p).Attempts, want)
		}
		w.pass(want)
	}
	if got := w.bundle(t, p); got.Accepted != batchSize {
		t.Errorf("%d documents are stored, want %d", got.Accepted, batchSize)
	}
}
