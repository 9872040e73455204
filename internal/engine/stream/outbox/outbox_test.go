package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/stream/streamtest"
)

func open(t *testing.T) (*streamtest.Fixture, *outbox.Outbox) {
	t.Helper()
	db, clock := sqldbtest.Open(t), streamtest.NewClock()
	o := outbox.New(db, outbox.Options{
		Source: "smartdrive/test", Now: clock.Now, Log: slog.New(slog.DiscardHandler), GapTime: time.Nanosecond,
	})
	return &streamtest.Fixture{DB: db, Publisher: o, Source: o, Dead: o, Clock: clock}, o
}

func TestConformance(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, func(t *testing.T) *streamtest.Fixture {
		f, _ := open(t)
		return f
	})
}

func exec(t *testing.T, f *streamtest.Fixture, query string, args ...any) {
	t.Helper()
	err := f.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, query, args...)
		if err == nil && n == 0 {
			t.Errorf("%s: no rows", query)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func rowsOf(t *testing.T, f *streamtest.Fixture, table string) (n int) {
	t.Helper()
	if err := f.DB.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// D5: a lone record costs no write of its own; acks share a step of the cursor, by count and by
// age.
func TestAcksAreGathered(t *testing.T) {
	t.Parallel()
	f, _ := open(t)
	w := f.NewWorker("w", func(c *stream.Consumer) { c.Batch, c.AckAge = 10, time.Second })
	w.Pass(t)
	before := f.DB.Stats().Writes.Load()
	settles := func() int64 { return f.DB.Stats().Writes.Load() - before }
	publish := func(n int) {
		for range n {
			f.Publish(t, streamtest.Account, "a")
			before++ // what publishing costs
			w.Pass(t)
		}
	}
	if publish(9); settles() != 0 {
		t.Fatalf("%d steps of the cursor after 9 records", settles())
	}
	if publish(1); settles() != 1 {
		t.Fatalf("%d steps of the cursor after 10 records", settles())
	}
	publish(3)
	stats, err := w.RunOnce(t.Context())
	if err != nil || !stats.Next.Equal(f.Clock.Now().Add(time.Second)) {
		t.Fatalf("next at %v, error %v", stats.Next, err)
	}
	f.Clock.Advance(time.Second)
	if w.Pass(t); settles() != 2 {
		t.Fatalf("%d steps of the cursor after the acks were old enough", settles())
	}
}

// A record fails while the clock is a year ahead, and the clock is set right: its retry does not
// wait for that year.
func TestRetryIgnoresFastClock(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	f, _ := open(t)
	w := f.NewWorker("w")
	w.Answer = func(stream.Record) error { return errors.New("no") }
	f.Clock.Advance(year)
	f.Publish(t, streamtest.Account, "a")
	w.Pass(t)
	w.Answer = nil
	if got := w.Pass(t); len(got) != 0 {
		t.Fatalf("handled before it was due: %v", got)
	}
	f.Clock.Advance(-year)
	if got := w.Pass(t); len(got) != 1 {
		t.Errorf("handled after the clock was set right: %v", got)
	}
}

func TestUndecodableRecordBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	w := f.NewWorker("w")
	f.Publish(t, streamtest.Account, "a", "b", "c")
	exec(t, f, "UPDATE outbox SET event = '{' WHERE id = 1")
	exec(t, f, "UPDATE outbox SET `key` = 'nobody' WHERE id = 2")
	if got := w.Pass(t); len(got) != 1 || got[0] != "c" {
		t.Errorf("handed over %v", got)
	}
	list, err := o.List(t.Context(), 10, 0)
	if err != nil || len(list) != 2 || string(list[0].Event) != "{" || list[1].Key != "nobody" {
		t.Errorf("dead letters %v, error %v", list, err)
	}
}

func TestLags(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	w := f.NewWorker("w")
	w.Pass(t)
	lag := func(offsets, waiting int64) {
		t.Helper()
		want := []stream.Lag{{Consumer: "w", Topic: stream.TopicUploads, Offsets: offsets, Waiting: waiting}}
		got, err := o.Lags(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("error %v, lag (-want +got):\n%s", err, diff)
		}
	}
	lag(0, 0)
	f.Publish(t, streamtest.Account, "a", "b")
	lag(2, 0)
	w.Answer = func(stream.Record) error { return errors.New("no") }
	w.Pass(t)
	lag(0, 2)
	if c := o.Counters(); c.Published.Load() != 2 || w.Counters().Retried.Load() != 2 {
		t.Errorf("%d published, %d retried", c.Published.Load(), w.Counters().Retried.Load())
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	fast, slow := f.NewWorker("fast"), f.NewWorker("slow", func(c *stream.Consumer) { c.Batch = 1 })
	slow.Pass(t)
	old := make([]string, 1200) // more than two batches
	f.Publish(t, streamtest.Account, old...)
	fast.Pass(t)
	for range 100 {
		if _, err := slow.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	trim := func(after time.Duration, want int64) {
		t.Helper()
		if n, err := o.Trim(t.Context(), f.Clock.Now().Add(after)); err != nil || n != want {
			t.Fatalf("%d rows deleted, want %d; error %v", n, want, err)
		}
	}
	const week = 7 * 24 * time.Hour
	trim(week, 0)
	trim(week+time.Second, 100)
	if got := len(slow.Pass(t)); got != 1100 {
		t.Fatalf("the slow consumer still got %d records, want 1100", got)
	}
	f.Clock.Advance(time.Hour)
	f.Publish(t, streamtest.Account, "young")
	slow.Pass(t)
	fast.Pass(t)
	trim(week-time.Minute, 1100)
	f.Clock.Advance(time.Hour)
	fast.Pass(t)  // its ack is old enough now
	trim(week, 1) // an empty table must not hand out its offsets again
	f.Publish(t, streamtest.Account, "next")
	if got := slow.Pass(t); len(got) != 1 || got[0] != "next" {
		t.Errorf("after the trim: %v", got)
	}
}

// ahead publishes records of a clock that was ahead, and behind them older ones. Trim is asked at
// the time that it returns.
func ahead(t *testing.T, f *streamtest.Fixture, young, old int) time.Time {
	t.Helper()
	const month = 30 * 24 * time.Hour
	f.Clock.Advance(month)
	f.Publish(t, streamtest.Account, make([]string, young)...)
	f.Clock.Advance(-month)
	f.Publish(t, streamtest.Account, make([]string, old)...)
	return f.Clock.Now().Add(month / 2)
}

// TestNewRecordsFirstDoNotBlockTrim: records with a future time, at the head of the outbox, are
// kept, and the older ones behind them are trimmed in one run.
func TestNewRecordsFirstDoNotBlockTrim(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	at := ahead(t, f, 1100, 1200) // both are more than two batches
	if n, err := o.Trim(t.Context(), at); n != 1200 || err != nil {
		t.Errorf("%d rows deleted, want 1200; error %v", n, err)
	}
	if n := rowsOf(t, f, "outbox"); n != 1100 {
		t.Errorf("%d rows are left, want 1100", n)
	}
}

// Retained records, one fewer than a page, do not cause a transaction for each record that is
// deleted.
func TestAPageOfTheOutboxIsOneTransaction(t *testing.T) {
	t.Parallel()
	var calls sqldbtest.Counter
	db, clock := sqldbtest.OpenWith(t, sqldb.Options{Connector: calls.Connector}), streamtest.NewClock()
	o := outbox.New(db, outbox.Options{Source: "smartdrive/test", Now: clock.Now})
	f := &streamtest.Fixture{DB: db, Publisher: o, Clock: clock}
	at := ahead(t, f, 499, 1200)
	before := calls.Count(sqldbtest.Begin)
	if n, err := o.Trim(t.Context(), at); n != 1200 || err != nil {
		t.Errorf("%d rows deleted, want 1200; error %v", n, err)
	}
	if n := calls.Count(sqldbtest.Begin) - before; n > 4 {
		t.Errorf("%d transactions for 1699 rows, want at most 4", n)
	}
}

// A run stops in a long outbox without old records; the next runs continue behind it.
func TestTrimResumesThroughOutbox(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	o.LookAt(1000)
	at := ahead(t, f, 2600, 600)
	var all int64
	for i := range 6 {
		n, err := o.Trim(t.Context(), at)
		if all += n; err != nil || i == 0 && n != 0 {
			t.Errorf("run %d: %d rows deleted, error %v", i, n, err)
		}
	}
	if all != 600 {
		t.Errorf("%d rows deleted, want 600", all)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	w := f.NewWorker("w")
	w.Answer = func(stream.Record) error { return errors.New("no") }
	f.Publish(t, streamtest.Account, "a")
	w.Pass(t)
	f.Publish(t, streamtest.Account, "b")
	late := f.Clock.Now().Add(30 * 24 * time.Hour)
	if n, err := o.Trim(t.Context(), late); err != nil || n != 1 {
		t.Fatalf("%d rows deleted, error %v", n, err)
	}
	if err := o.RemoveConsumer(t.Context(), "w", stream.TopicUploads); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Trim(t.Context(), late); err != nil || n != 1 {
		t.Fatalf("%d rows deleted after it was forgotten, error %v", n, err)
	}
	if d, l := rowsOf(t, f, "deliveries"), rowsOf(t, f, "dead_letters"); d != 0 || l != 1 {
		t.Errorf("%d deliveries and %d dead letters", d, l)
	}
}
