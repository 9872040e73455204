package streamtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Run runs the suite. open must return an empty stream for one subtest.
func Run(t *testing.T, open func(*testing.T) *Fixture) {
	for name, test := range Tests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// Tests returns the tests of the suite by name, for callers that run each in its own environment.
func Tests() map[string]func(*testing.T, *Fixture) {
	return map[string]func(*testing.T, *Fixture){
		"a record arrives as it was published":                        arrives,
		"a record of a rolled back transaction is never seen":         rolledBack,
		"a record is published once":                                  publishedOnce,
		"records of one key come in order":                            orderPerKey,
		"every consumer gets every record":                            everyConsumer,
		"a new consumer begins where it says":                         starts,
		"a crash before the cursor moves hands the record over again": crash,
		"what is settled does not come again":                         settled,
		"a settle that failed is handed over again":                   settleFails,
		"a lost reply of settle repeats nothing":                      settleReplyLost,
		"a second session of a consumer ends the first, or shares":    secondSession,
		"a poll returns at most limit of each":                        limits,
		"a failed record does not block later ones":                   doesNotBlock,
		"a retry does not come before its level's delay":              levels,
		"a failure survives a crash":                                  failureSurvives,
		"unavailable consumes no attempt":                             unavailable,
		"a handler's own time-out is a failure":                       ownTimeout,
		"a panic is a failure":                                        panics,
		"a record is dead after its last level":                       dead,
		"a replay gives a dead letter again once":                     replay,
		"a dropped dead letter is gone":                               drop,
		"dead letters are listed in pages":                            pages,
		"a dead letter from outside is replayed to its consumer":      added,
		"a slow record delays its own key only":                       slowKey,
		"the cursor does not pass a record that is at work":           cursorWaits,
		"records of a busy key are put off when they are in the way":  putOff,
	}
}

// want fails the test unless got equals subjects.
func want(t testing.TB, what string, got []string, subjects ...string) {
	t.Helper()
	if diff := cmp.Diff(subjects, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// arrives checks that a record is delivered unchanged, apart from the source and the time that the
// publisher sets.
func arrives(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	before := drive.TimeOf(f.Clock.Now())
	sent := f.Publish(t, Account, "a")[0]
	after := drive.TimeOf(f.Clock.Now())
	want(t, "handed over", w.Pass(t), "a")
	sent.Time, sent.Source = w.Got[0].Time, w.Got[0].Source
	if sent.Time < before.Add(-f.Slack) || sent.Time > after.Add(f.Slack) {
		t.Errorf("it says that it was published at %v; that was between %v and %v", sent.Time, before, after)
	}
	if diff := cmp.Diff(sent, w.Got[0]); diff != "" || sent.Source == "" {
		t.Errorf("the record changed on its way (-published +handled):\n%s", diff)
	}
	var data map[string]string
	if err := json.Unmarshal(w.Got[0].Data, &data); err != nil || data["path"] != "/<a>" {
		t.Errorf("data %s, error %v", w.Got[0].Data, err)
	}
}

// rolledBack checks that a transaction that is rolled back publishes nothing and that the next one
// does.
func rolledBack(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	boom := errors.New("boom")
	err := f.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := f.Publisher.Append(ctx, tx, Records(t, Account, "a")...); err != nil {
			return err
		}
		if err := f.Publisher.Append(ctx, tx, Records(t, Account, "b")...); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	want(t, "after the roll back", w.Pass(t))
	f.Publish(t, Account, "c")
	want(t, "after the next commit", w.Pass(t), "c")
}

// publishedOnce checks that a second record with the same id is refused.
func publishedOnce(t *testing.T, f *Fixture) {
	records := f.Publish(t, Account, "a")
	err := f.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return f.Publisher.Append(ctx, tx, records...)
	})
	if !sqldb.IsDuplicate(err) {
		t.Errorf("published a second time: %v", err)
	}
	want(t, "handed over", f.NewWorker("w").Pass(t), "a")
}

// orderPerKey checks that records with the same key arrive in the order in which they were
// published, among records of another key.
func orderPerKey(t *testing.T, f *Fixture) {
	keys := []drive.AccountID{Account, drive.NewID[drive.AccountID]()}
	sent := map[drive.AccountID][]stream.RecordID{}
	for i := range 40 {
		key := keys[i%3%2]
		for _, r := range f.Publish(t, key, "x", "y") {
			sent[key] = append(sent[key], r.ID)
		}
	}
	w := f.NewWorker("w", func(c *stream.Consumer) { c.Batch = 7 })
	w.Pass(t)
	got := map[drive.AccountID][]stream.RecordID{}
	for _, r := range w.Got {
		got[r.Key] = append(got[r.Key], r.ID)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
}

// everyConsumer checks that consumers are independent.
func everyConsumer(t *testing.T, f *Fixture) {
	a, b := f.NewWorker("a"), f.NewWorker("b")
	a.Answer = failing("1")
	f.Publish(t, Account, "1", "2")
	want(t, "the first consumer", a.Pass(t), "1", "2")
	want(t, "the second consumer", b.Pass(t), "1", "2")
	f.after(0)
	want(t, "the one that failed", a.Pass(t), "1")
	want(t, "the one that did not", b.Pass(t))
}

// starts checks the initial positions of new consumers.
func starts(t *testing.T, f *Fixture) {
	f.Publish(t, Account, "old")
	end := func(c *stream.Consumer) { c.Start = stream.FromEnd }
	want(t, "from the beginning", f.NewWorker("a").Pass(t), "old")
	want(t, "from the end", f.NewWorker("b", end).Pass(t))
	f.Publish(t, Account, "new")
	want(t, "from the end, once something came, even if it crashed before", f.NewWorker("b", end).Pass(t), "new")
	if n := len(stream.Topics()); n < 2 {
		t.Fatalf("%d topics", n)
	}
	other := f.NewWorker("a", func(c *stream.Consumer) { c.Topic = stream.TopicExports })
	want(t, "another topic", other.Pass(t))
}

// crash checks that unsettled records are delivered again after a crash.
func crash(t *testing.T, f *Fixture) {
	f.Publish(t, Account, "a", "b")
	want(t, "before the crash", f.NewWorker("w").Pass(t), "a", "b")
	want(t, "after the crash", f.NewWorker("w", settleNow).Pass(t), "a", "b")
	want(t, "once it was settled", f.NewWorker("w").Pass(t))
}

// settled checks that settled records are not delivered again.
func settled(t *testing.T, f *Fixture) {
	f.Publish(t, Account, "a", "b", "c")
	want(t, "first", f.NewWorker("w", settleNow).Pass(t), "a", "b", "c")
	f.Publish(t, Account, "d")
	want(t, "the next process", f.NewWorker("w", settleNow).Pass(t), "d")
}

// settleFails checks that a record is delivered again after a failed settle.
func settleFails(t *testing.T, f *Fixture) {
	faulty := &Faulty{Source: f.Source, FailSettle: true}
	f.Source = faulty
	w := f.NewWorker("w", settleNow)
	f.Publish(t, Account, "a")
	w.Ready(t)
	if _, err := w.RunOnce(t.Context()); !drive.IsKind(err, drive.Unavailable) {
		t.Fatalf("error %v", err)
	}
	want(t, "fault gone", w.Pass(t), "a")
	want(t, "settled", w.Pass(t))
}

// settleReplyLost checks that a settle whose reply is lost took effect once: the error is
// Unavailable, and no record is handled or counted as failed again.
func settleReplyLost(t *testing.T, f *Fixture) {
	faulty := &Faulty{Source: f.Source, LoseReply: true}
	f.Source = faulty
	w := f.NewWorker("w", func(c *stream.Consumer) { c.Batch = 10 })
	w.Answer = failing("a")
	f.Publish(t, Account, "a", "b")
	w.Ready(t)
	if _, err := w.RunOnce(t.Context()); !drive.IsKind(err, drive.Unavailable) {
		t.Fatalf("error %v", err)
	}
	want(t, "fault gone", w.Pass(t))
	f.after(0)
	w.Ready(t)
	faulty.LoseReply = true
	w.Got = nil
	if _, err := w.RunOnce(t.Context()); !drive.IsKind(err, drive.Unavailable) {
		t.Fatalf("error %v", err)
	}
	want(t, "one retry", w.Subjects(), "a")
	w.Answer = nil
	want(t, "it waits once on the next level", w.Pass(t))
	f.after(1)
	want(t, "one retry again", w.Pass(t), "a")
	want(t, "done", w.Pass(t))
}

// secondSession checks that of two sessions of one consumer that do not share records only the
// first to settle a record succeeds, and the other gets WrongState and continues from there. For a
// shared source it runs sharedRecords.
func secondSession(t *testing.T, f *Fixture) {
	if f.Shared {
		sharedRecords(t, f)
		return
	}
	first, second := f.NewWorker("w", settleNow), f.NewWorker("w", settleNow)
	want(t, "open", slices.Concat(first.Pass(t), second.Pass(t)))
	f.Publish(t, Account, "a")
	second.Answer = failing("a")
	want(t, "the second settles", second.Pass(t), "a")
	first.Got = nil
	if _, err := first.RunOnce(t.Context()); !drive.IsKind(err, drive.WrongState) {
		t.Fatalf("the first settled as well: %v", err)
	}
	f.after(0)
	first.Answer = func(stream.Record) error { return drive.Fail(drive.Stopping) }
	if _, err := first.RunOnce(t.Context()); !drive.IsKind(err, drive.Stopping) {
		t.Fatalf("error %v", err)
	}
	want(t, "the second is faster with the retry", second.Pass(t), "a")
	first.Answer = failing("a")
	if _, err := first.RunOnce(t.Context()); !drive.IsKind(err, drive.WrongState) {
		t.Fatalf("the first settled the retry as well: %v", err)
	}
	want(t, "it waits on the next level", first.Pass(t))
	f.after(1)
	first.Answer = nil
	want(t, "the first goes on from what the second left", first.Pass(t), "a")
}

// limits checks that Poll returns at most limit retries and limit new records, and the time when
// the next retry is due.
func limits(t *testing.T, f *Fixture) {
	w := f.NewWorker("w")
	w.Answer = func(stream.Record) error { return errors.New("no") }
	f.Publish(t, Account, "a", "b", "c")
	w.Pass(t)
	f.after(0)
	f.Publish(t, Account, "d", "e", "f")
	if f.Shared {
		w.crash()
	}
	s, err := f.Source.Open(t.Context(), stream.Subscription{Consumer: "w", Topic: stream.TopicUploads})
	if err != nil {
		t.Fatal(err)
	}
	f.quiet(t)
	batch, next, err := s.Poll(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range batch {
		rec, err := stream.Decode(d.Topic, Account, d.Event)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rec.Subject)
	}
	want(t, "two retries, two records", got, "a", "b", "d", "e")
	if next.IsZero() || next.After(f.Clock.Now()) {
		t.Errorf("the third retry is due now, not at %v", next)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
