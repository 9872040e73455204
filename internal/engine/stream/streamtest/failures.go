package streamtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// doesNotBlock checks that later records are handled while a failed one waits.
func doesNotBlock(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	w.Answer = failing("b")
	f.Publish(t, Account, "a", "b", "c")
	want(t, "all", w.Pass(t), "a", "b", "c")
	f.Publish(t, Account, "d")
	want(t, "later ones", w.Pass(t), "d")
	w.Answer = nil
	f.after(0)
	want(t, "the retry", w.Pass(t), "b")
	f.long()
	want(t, "nothing more", w.Pass(t))
}

// levels checks that a retry is never earlier than the delay of its level.
func levels(t *testing.T, f *Fixture) {
	f.Clock.Advance(time.Microsecond) // a delay must not be cut by rounding
	w := f.NewWorker("w")
	w.Answer = failing("a")
	f.Publish(t, Account, "a")
	want(t, "the first try", w.Pass(t), "a")
	for i, level := range f.levels() {
		f.almost(i)
		want(t, "before "+level.Name, w.Pass(t))
		f.rest()
		want(t, "after "+level.Name, w.Pass(t), "a")
	}
}

// failureSurvives checks that a failed record is retried after a crash.
func failureSurvives(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	w.Answer = failing("a")
	f.Publish(t, Account, "a", "b")
	want(t, "before the crash", w.Pass(t), "a", "b")
	next := f.NewWorker("w")
	want(t, "after the crash", next.Pass(t))
	f.after(0)
	want(t, "the retry", next.Pass(t), "a")
}

// unavailable checks that a handler that returns Unavailable pauses its consumer: the record is
// delivered again in order and no attempt is counted, however often that happens.
func unavailable(t *testing.T, f *Fixture) {
	w := f.NewWorker("w", func(c *stream.Consumer) { c.Batch = 2 })
	w.Answer = func(r stream.Record) error {
		if r.Subject == "b" {
			return fmt.Errorf("ask: %w", drive.Fail(drive.Unavailable))
		}
		return nil
	}
	f.Publish(t, Account, "a", "b", "c", "d", "e")
	w.Ready(t)
	for range 20 {
		if _, err := w.RunOnce(t.Context()); !drive.IsKind(err, drive.Unavailable) {
			t.Fatalf("error %v", err)
		}
		f.Clock.Advance(cmp.Or(f.Long, 24*time.Hour) / 1440)
	}
	if got := w.Counters().Pauses.Load(); got != 20 {
		t.Errorf("%d pauses, want 20", got)
	}
	want(t, "during the outage", w.Subjects()[:3], "a", "b", "b")
	w.Answer = failing("b")
	want(t, "after it, in order", w.Pass(t), "b", "c", "d", "e")
	f.almost(0)
	want(t, "before the first level", w.Pass(t))
	f.rest()
	want(t, "after the first level", w.Pass(t), "b")
}

// ownTimeout checks that a timeout of the handler counts as a failure.
func ownTimeout(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	w.Answer = func(r stream.Record) error {
		if r.Subject == "a" {
			return fmt.Errorf("work: %w", context.DeadlineExceeded)
		}
		return nil
	}
	f.Publish(t, Account, "a", "b")
	want(t, "both", w.Pass(t), "a", "b")
}

// panics checks that a panic counts as a failure.
func panics(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	w.Answer = func(r stream.Record) error {
		if r.Subject == "a" {
			panic(errors.New("boom"))
		}
		return nil
	}
	f.Publish(t, Account, "a", "b")
	want(t, "both", w.Pass(t), "a", "b")
	if c := w.Counters(); c.Panics.Load() != 1 || c.Retried.Load() != 1 || c.Handled.Load() != 1 {
		t.Errorf("%d panics, %d retried, %d handled", c.Panics.Load(), c.Retried.Load(), c.Handled.Load())
	}
	w.Answer = nil
	f.after(0)
	want(t, "the retry", w.Pass(t), "a")
}

// kill lets the record of the subject fail at every try until it is a dead letter. Afterwards w
// fails that subject still.
func kill(t *testing.T, f *Fixture, w *Worker, subject string) {
	t.Helper()
	w.Answer = failing(subject)
	want(t, "the first try", w.Pass(t), subject)
	for i, level := range f.levels() {
		f.after(i)
		want(t, "the try after "+level.Name, w.Pass(t), subject)
	}
	f.long()
	want(t, "after its death", w.Pass(t))
}

// letters returns the dead letters and fails the test unless there are n.
func letters(t *testing.T, f *Fixture, n int) []stream.DeadLetter {
	t.Helper()
	list, err := f.Dead.List(t.Context(), 100, 0)
	if err != nil || len(list) != n {
		t.Fatalf("%d dead letters, want %d; error %v", len(list), n, err)
	}
	return list
}

// dead checks the dead letter of a record that failed after its last level.
func dead(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	sent := f.Publish(t, Account, "a")[0]
	kill(t, f, w, "a")
	d := letters(t, f, 1)[0]
	rec, err := stream.Decode(d.Topic, Account, d.Event)
	if err != nil || rec.ID != sent.ID || d.Key != Account.String() {
		t.Errorf("record %v of key %s, want %v; error %v", rec.ID, d.Key, sent.ID, err)
	}
	if want := len(f.levels()) + 1; d.Failures != want || d.Consumer != "w" || d.Failure.Text != "cannot do a" ||
		d.Failure.Kind != drive.Internal.String() || d.DiedAt == 0 {
		t.Errorf("%+v, want %d failures of w", d, want)
	}
	if got := w.Counters().Dead.Load(); got != 1 {
		t.Errorf("%d dead counted", got)
	}
}

// replay checks that a replay delivers a dead letter once, with all attempts.
func replay(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	f.Publish(t, Account, "a")
	kill(t, f, w, "a")
	id := letters(t, f, 1)[0].ID
	for i, kind := range []drive.Kind{0, drive.NotFound} {
		if err := f.Dead.Replay(t.Context(), id); (i == 0) != (err == nil) || i == 1 && !drive.IsKind(err, kind) {
			t.Fatalf("replay %d: %v", i, err)
		}
	}
	letters(t, f, 0)
	kill(t, f, w, "a") // it has all of its attempts again
	if err := f.Dead.Replay(t.Context(), letters(t, f, 1)[0].ID); err != nil {
		t.Fatal(err)
	}
	w.Answer = nil
	want(t, "the replay", w.Pass(t), "a")
	f.long()
	want(t, "nothing more", w.Pass(t))
	letters(t, f, 0)
}

// drop checks that a dropped dead letter does not exist any more.
func drop(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	f.Publish(t, Account, "a")
	kill(t, f, w, "a")
	id := letters(t, f, 1)[0].ID
	if err := f.Dead.Drop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"get":    func() error { _, err := f.Dead.Get(t.Context(), id); return err }(),
		"replay": f.Dead.Replay(t.Context(), id),
		"drop":   f.Dead.Drop(t.Context(), id),
	} {
		if !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	want(t, "nothing more", w.Pass(t))
}

// bury adds a dead letter of the consumer for each subject, with 3 failures of the kind DiskFull,
// without publishing the records.
func bury(t *testing.T, f *Fixture, consumer string, subjects ...string) {
	t.Helper()
	records := Records(t, Account, subjects...)
	err := f.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, r := range records {
			if err := f.Dead.Add(ctx, tx, consumer, r, 3, drive.Fail(drive.DiskFull)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pages checks that the pages of List contain each dead letter once, in order, and that Get finds
// each of them.
func pages(t *testing.T, f *Fixture) {
	bury(t, f, "w", "a", "b", "c", "d", "e")
	var got []string
	var after stream.DeadID
	for {
		page, err := f.Dead.List(t.Context(), 2, after)
		if err != nil || len(page) > 2 {
			t.Fatalf("a page of %d, error %v", len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			one, err := f.Dead.Get(t.Context(), d.ID)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := stream.Decode(one.Topic, Account, one.Event)
			if err != nil {
				t.Fatal(err)
			}
			got, after = append(got, rec.Subject), d.ID
		}
	}
	want(t, "all pages", got, "a", "b", "c", "d", "e")
}

// added checks that an added dead letter is replayed to its consumer only.
func added(t *testing.T, f *Fixture) {
	bury(t, f, "w", "a")
	d := letters(t, f, 1)[0]
	if d.Failures != 3 || d.Failure.Kind != drive.DiskFull.String() {
		t.Errorf("%+v", d)
	}
	other, w := f.NewWorker("other"), f.NewWorker("w")
	if err := f.Dead.Replay(t.Context(), d.ID); err != nil {
		t.Fatal(err)
	}
	want(t, "another consumer", other.Pass(t))
	want(t, "its consumer", w.Pass(t), "a")
}
