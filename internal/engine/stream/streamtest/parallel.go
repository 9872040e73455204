package streamtest

import (
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// sharedRecords tests two sessions that share a consumer: each record goes to one of them, and
// after one ends all go to the other.
func sharedRecords(t *testing.T, f *Fixture) {
	first := f.NewWorker("w", settleNow)
	first.Pass(t)
	second := &Fixture{Source: f.Source, Clock: f.Clock, Levels: f.Levels, WaitIdle: f.WaitIdle, Shared: true}
	other := second.NewWorker("w", settleNow)
	other.Pass(t)
	var sent []string
	for i := range 30 {
		sent = append(sent, string(rune('A'+i)))
	}
	publish := func() {
		for _, subject := range sent {
			f.Publish(t, drive.NewID[drive.AccountID](), subject)
		}
	}
	round := func() (a, b, both []string) {
		publish()
		a, b = first.Pass(t), other.Pass(t)
		both = slices.Concat(a, b)
		slices.Sort(both)
		return a, b, both
	}
	for begun := time.Now(); ; { // until both have partitions; a rebalance may deliver records to both
		a, b, both := round()
		want(t, "while they come to share", slices.Compact(both), sent...)
		if len(a) > 0 && len(b) > 0 {
			break
		}
		if time.Since(begun) > 5*time.Minute {
			t.Fatal("they do not share")
		}
		f.Clock.Advance(time.Second)
	}
	_, _, both := round()
	want(t, "both together", both, sent...)
	first.crash()
	publish()
	got := other.Pass(t)
	slices.Sort(got)
	want(t, "the one that is left", got, sent...)
}

// sideBySide makes the consumer handle four records at once and settle each ack immediately.
func sideBySide(c *stream.Consumer) { c.Parallel, c.Batch = 4, 1 }

// slowKey checks that a slow record delays only records of its key.
func slowKey(t *testing.T, f *Fixture) {
	slow, quick := Account, drive.NewID[drive.AccountID]()
	f.Publish(t, slow, "s1", "s2", "s3")
	f.Publish(t, quick, "q1", "q2", "q3")
	w := f.NewWorker("w", sideBySide)
	passed := make(chan struct{})
	w.Answer = func(r stream.Record) error {
		switch r.Subject {
		case "s1":
			<-passed
		case "q3":
			close(passed)
		}
		return nil
	}
	w.Ready(t)
	order := map[drive.AccountID][]string{}
	w.Pass(t)
	for _, r := range w.Got {
		order[r.Key] = append(order[r.Key], r.Subject)
	}
	want(t, "the slow key, in its order", order[slow], "s1", "s2", "s3")
	want(t, "the other, in its order", order[quick], "q1", "q2", "q3")
	want(t, "after a crash later on", f.NewWorker("w", sideBySide).Pass(t))
}

// cursorWaits checks that the cursor does not pass a record that is unhandled while a later one
// with another key is done: after a crash it is delivered again.
func cursorWaits(t *testing.T, f *Fixture) {
	f.Publish(t, Account, "a")
	f.Publish(t, drive.NewID[drive.AccountID](), "b")
	w := f.NewWorker("w", sideBySide)
	w.Answer = func(r stream.Record) error {
		if r.Subject == "a" {
			return drive.Fail(drive.Unavailable)
		}
		return nil
	}
	w.Ready(t)
	for range 3 {
		if _, err := w.RunOnce(t.Context()); !drive.IsKind(err, drive.Unavailable) {
			t.Fatalf("error %v", err)
		}
	}
	if !slices.Contains(w.Subjects(), "b") {
		t.Fatalf("handed over %v", w.Subjects())
	}
	next := f.NewWorker("w", sideBySide)
	if got := next.Pass(t); !slices.Contains(got, "a") {
		t.Errorf("after the crash %v", got)
	}
	want(t, "then", next.Pass(t))
}

// putOff checks that records of a busy key are postponed when they fill the window.
func putOff(t *testing.T, f *Fixture) {
	f.Publish(t, Account, "a1", "a2", "a3", "a4", "a5")
	other := drive.NewID[drive.AccountID]()
	w := f.NewWorker("w", func(c *stream.Consumer) { c.Parallel, c.Window = 2, 3 })
	full := make(chan struct{})
	w.Answer = func(r stream.Record) error {
		if r.Subject == "a1" {
			<-full
		}
		return nil
	}
	w.Ready(t)
	f.Publish(t, other, "b")
	go func() {
		defer close(full)
		for begun := time.Now(); time.Since(begun) < 3*time.Minute; {
			if w.Counters().Postponed.Load() >= 2 {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	}()
	got := w.Pass(t)
	if !slices.Contains(got, "b") || slices.Contains(got, "a2") || slices.Contains(got, "a3") {
		t.Fatalf("handed over %v: a2 and a3 are put off, b is not", got)
	}
	if c := w.Counters(); c.Postponed.Load() < 2 || c.Retried.Load() != 0 {
		t.Errorf("%d put off, %d retried", c.Postponed.Load(), c.Retried.Load())
	}
	f.after(0)
	got = append(got, w.Pass(t)...)
	slices.Sort(got)
	want(t, "in the end", got, "a1", "a2", "a3", "a4", "a5", "b")
	letters(t, f, 0)
}
