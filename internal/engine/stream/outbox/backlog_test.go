package outbox_test

import (
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/stream/streamtest"
)

func unsent(t *testing.T, o *outbox.Outbox, limit int) []stream.Unsent {
	t.Helper()
	list, err := o.Unsent(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestUnsentRowsAreFoundByTheirMark(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	f.Publish(t, streamtest.Account, "a", "b", "c", "d")
	list := unsent(t, o, 3)
	if len(list) != 3 || list[0].Topic != stream.TopicUploads || list[0].Key != streamtest.Account.String() {
		t.Fatalf("unsent %+v", list)
	}
	// The second is marked, the first and third are not: no high-water mark would find both again.
	for range 2 {
		if err := o.MarkSent(t.Context(), list[1:2]); err != nil {
			t.Fatal(err)
		}
	}
	rest := unsent(t, o, 10)
	if len(rest) != 3 || rest[0].Position != list[0].Position || rest[1].Position != list[2].Position {
		t.Errorf("unsent then %+v", rest)
	}
	if n, age, err := o.Waiting(t.Context()); n != 3 || age != 0 || err != nil {
		t.Errorf("%d wait, the oldest for %v, error %v", n, age, err)
	}
	f.Clock.Advance(time.Minute)
	if _, age, err := o.Waiting(t.Context()); age != time.Minute || err != nil {
		t.Errorf("the oldest waits for %v, error %v", age, err)
	}
}

func TestRelaySendsDueRetriesAndReplays(t *testing.T) {
	t.Parallel()
	f, o := open(t)
	w := f.NewWorker("w")
	w.Answer = func(stream.Record) error { return errors.New("no") }
	f.Publish(t, streamtest.Account, "a")
	w.Pass(t)
	if err := o.MarkSent(t.Context(), unsent(t, o, 10)); err != nil {
		t.Fatal(err)
	}
	if list := unsent(t, o, 10); len(list) != 0 {
		t.Fatalf("unsent before it is due: %+v", list)
	}
	f.Clock.Advance(stream.Levels()[0].Delay)
	list := unsent(t, o, 10)
	if len(list) != 1 || !list[0].Retry || list[0].Consumer != "w" || list[0].Failures != 1 {
		t.Fatalf("unsent when it is due: %+v", list)
	}
	if err := o.MarkSent(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if n := rowsOf(t, f, "deliveries"); n != 0 {
		t.Errorf("%d rows left", n)
	}
}

func TestTrimDeletesOnlySentRecordsWithRelay(t *testing.T) {
	t.Parallel()
	db, clock := sqldbtest.Open(t), streamtest.NewClock()
	o := outbox.New(db, outbox.Options{Source: "smartdrive/test", Now: clock.Now, Relayed: true})
	f := &streamtest.Fixture{DB: db, Publisher: o, Clock: clock}
	f.Publish(t, streamtest.Account, "a", "b")
	if err := o.MarkSent(t.Context(), unsent(t, o, 1)); err != nil {
		t.Fatal(err)
	}
	for i, after := range []time.Duration{59 * time.Minute, 61 * time.Minute, 30 * 24 * time.Hour} {
		n, err := o.Trim(t.Context(), clock.Now().Add(after))
		if want := int64(i % 2); n != want || err != nil {
			t.Errorf("after %v: %d rows deleted, want %d; error %v", after, n, want, err)
		}
	}
	if list := unsent(t, o, 10); len(list) != 1 {
		t.Errorf("what was never sent: %+v", list)
	}
}

// TestUnsentRecordsDoNotBlockTrim: sent records are trimmed although unsent ones precede them, as
// for an unavailable partition.
func TestUnsentRecordsDoNotBlockTrim(t *testing.T) {
	t.Parallel()
	db, clock := sqldbtest.Open(t), streamtest.NewClock()
	o := outbox.New(db, outbox.Options{Source: "smartdrive/test", Now: clock.Now, Relayed: true})
	f := &streamtest.Fixture{DB: db, Publisher: o, Clock: clock}
	f.Publish(t, streamtest.Account, make([]string, 1700)...)
	all := unsent(t, o, 2000)
	if err := o.MarkSent(t.Context(), all[600:]); err != nil { // more than a batch is not, more than two batches are
		t.Fatal(err)
	}
	if n, err := o.Trim(t.Context(), clock.Now().Add(2*time.Hour)); n != 1100 || err != nil {
		t.Errorf("%d rows deleted, want 1100; error %v", n, err)
	}
	if err := o.MarkSent(t.Context(), all[:600]); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Trim(t.Context(), clock.Now().Add(2*time.Hour)); n != 600 || err != nil {
		t.Errorf("%d rows deleted when all are sent, want 600; error %v", n, err)
	}
}

func drained(offset int64, consumer, event string) stream.DrainedLetter {
	return stream.DrainedLetter{
		DeadLetter: stream.DeadLetter{Consumer: consumer, Topic: stream.TopicPark, Event: []byte("{"), DiedAt: 1},
		Position:   stream.Position{Partition: 3, Offset: offset}, EventID: event,
	}
}

func TestDeadLettersAreImportedOnce(t *testing.T) {
	t.Parallel()
	_, o := open(t)
	inter := func(log string, want int, letters ...stream.DrainedLetter) {
		t.Helper()
		if err := o.Import(t.Context(), log, letters); err != nil {
			t.Fatal(err)
		}
		list, err := o.List(t.Context(), 100, 0)
		if err != nil || len(list) != want {
			t.Fatalf("%d letters, want %d; error %v", len(list), want, err)
		}
	}
	batch := []stream.DrainedLetter{drained(0, "w", "x"), drained(1, "w", "y"), drained(2, "w", "x"), drained(3, "v", "x"), drained(4, "w", "")}
	inter("dlq/1", 4, batch...) // x of w was sent twice
	inter("dlq/1", 4, batch...) // the commit was lost, it is drained again
	if err := o.Replay(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	inter("dlq/1", 3, batch...)                // a replayed letter stays replayed
	inter("dlq/1", 4, drained(5, "w", "x"))    // until it dies again
	inter("dlq/2", 5, drained(0, "new", "z"))  // a topic that was made again begins at 0
	inter("dlq/1", 5, drained(2, "late", "z")) // who was late
	if err := o.Drop(t.Context(), 99); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("error %v", err)
	}
}

// TestDeadLettersOfOtherProducersAreAllKept: messages of other producers have no consumer, and
// their ids may collide. Each is kept.
func TestDeadLettersOfOtherProducersAreAllKept(t *testing.T) {
	t.Parallel()
	_, o := open(t)
	one, other := drained(0, "", "1"), drained(1, "", "1")
	one.Event, other.Event = []byte(`{"id":"1","source":"shop"}`), []byte(`{"id":"1","source":"till"}`)
	for range 2 { // the commit was lost, they are drained again
		if err := o.Import(t.Context(), "dlq/1", []stream.DrainedLetter{one, other}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := o.List(t.Context(), 100, 0)
	if err != nil || len(list) != 2 || string(list[0].Event) != string(one.Event) || string(list[1].Event) != string(other.Event) {
		t.Errorf("letters %+v; error %v", list, err)
	}
}
