package trace

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/timer"
)

var (
	silent = slog.New(slog.DiscardHandler)
	begin  = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
)

func fired() timer.Fired {
	return timer.Fired{
		Key: timer.Key{Kind: timer.Park, ID: drive.NewID[[16]byte]()}, Gen: 3, First: drive.TimeOf(begin.Add(-time.Minute)),
		Due: drive.TimeOf(begin), Delivery: 1, Token: 1,
	}
}

func way(t *testing.T, r *Recorder, key timer.Key) (steps string) {
	t.Helper()
	all, err := r.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		steps += string(s.Step) + "@" + s.Instance + " "
		if s.Reason != "" {
			steps += "(" + s.Reason + ") "
		}
	}
	return steps
}

// TestFindReturnsStepsOfAllInstances: two instances write late and in the wrong order; Find returns
// the steps in order of time.
func TestFindReturnsStepsOfAllInstances(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	scheduler, worker := New(Options{DB: db, Instance: "1", Log: silent}), New(Options{DB: db, Instance: "2", Log: silent})
	f := fired()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	worker.Record(timer.Trace{Fired: f, Step: timer.Consumed, Began: at(2), At: at(2)})
	worker.Record(timer.Trace{Fired: f, Step: timer.Failed, Began: at(3), At: at(4), Err: drive.Fail(drive.DiskFull)})
	worker.flush(t.Context())
	scheduler.Record(timer.Trace{Fired: f, Step: timer.Started, Began: at(0), At: at(1)})
	scheduler.Record(timer.Trace{Fired: f, Step: timer.Published, Began: at(1), At: at(2)})
	scheduler.Record(timer.Trace{Fired: fired(), Step: timer.Started, Began: at(0), At: at(1)})
	if got := way(t, scheduler, f.Key); got != "armed@1 fired@1 published@1 consumed@2 failed@2 (disk-full) " {
		t.Error(got)
	}
}

// TestFiredStepHasPushBacks: only the fired step has the state of the queue.
func TestFiredStepHasPushBacks(t *testing.T) {
	t.Parallel()
	r := New(Options{DB: sqldbtest.Open(t), Instance: "1", Log: silent})
	f := fired()
	f.PushBacks, f.Last, f.Shard, f.Slice = 3, drive.TimeOf(begin.Add(-30*time.Second)), "17/64", "2026-11-20 08:00"
	r.Record(timer.Trace{Fired: f, Step: timer.Started, Began: begin, At: begin})
	r.Record(timer.Trace{Fired: f, Step: timer.Applied, Began: begin, At: begin})
	steps, err := r.Find(t.Context(), f.Key)
	if err != nil || len(steps) != 3 {
		t.Fatalf("%+v, %v", steps, err)
	}
	for _, s := range steps {
		want := QueueState{}
		if s.Step == timer.Started {
			want = QueueState{PushBacks: 3, LastPushBack: f.Last, Shard: f.Shard, Slice: f.Slice}
		}
		if s.Queued != want {
			t.Errorf("%s tells %+v, want %+v", s.Step, s.Queued, want)
		}
	}
}

// TestRecorderBlocksNoCaller: waiting steps are bounded; steps that cannot be written are
// dropped and counted; later ones are written.
func TestRecorderBlocksNoCaller(t *testing.T) {
	t.Parallel()
	r := New(Options{DB: sqldbtest.Open(t), Instance: "1", Log: silent})
	f := fired()
	for range maxWaiting + 10 {
		r.Record(timer.Trace{Fired: f, Step: timer.Applied, Began: begin, At: begin})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.flush(ended)
	if n, dropped := r.Counters().Written.Load(), r.Counters().Dropped.Load(); n != 0 || dropped != maxWaiting+10 {
		t.Errorf("%d written, %d dropped", n, dropped)
	}
	r.Record(timer.Trace{Fired: f, Step: timer.Applied, Began: begin, At: begin})
	if got := way(t, r, f.Key); got != "applied@1 " {
		t.Error(got)
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	r := New(Options{DB: db, Instance: "1", Log: silent})
	old, young := fired(), fired()
	for range 2 * trimBatch {
		r.Record(timer.Trace{Fired: old, Step: timer.Applied, Began: begin, At: begin})
	}
	r.Record(timer.Trace{Fired: young, Step: timer.Applied, Began: begin, At: begin.Add(time.Hour)})
	r.flush(t.Context())
	if err := r.Trim(t.Context(), begin.Add(keepFor+time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := way(t, r, old.Key) + way(t, r, young.Key); got != "applied@1 " {
		t.Errorf("after three days: %s", got)
	}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO timer_steps (id, timer, gen, step, begun_at, done_at, delivery, instance, reason)
			SELECT MAX(id) + ?, 'x', 1, 'applied', 1, done_at, 1, '1', '' FROM timer_steps GROUP BY done_at`, maxRows)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Trim(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	if got := way(t, r, young.Key); got != "" {
		t.Errorf("a million rows later: %s", got)
	}
}

// TestUnavailableCollectorDoesNotBlock: an unavailable or refusing collector loses only the spans
// sent to it.
func TestUnavailableCollectorDoesNotBlock(t *testing.T) {
	t.Parallel()
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	r := New(Options{DB: sqldbtest.Open(t), Instance: "1", Log: silent, Export: &OTLP{URL: server.URL, Version: "test"}})
	f := fired()
	for i, want := range []string{"0/1", "1/1"} {
		r.Record(timer.Trace{Fired: f, Step: timer.Applied, Began: begin, At: begin})
		r.flush(t.Context())
		batch := <-r.out
		r.out <- batch
		close(r.out)
		r.send(t.Context())
		r.out = make(chan []pendingStep, maxQueued)
		if got := strconv.FormatInt(r.Counters().Exported.Load(), 10) + "/" + strconv.FormatInt(r.Counters().Lost.Load(), 10); got != want {
			t.Errorf("exported and lost after batch %d: %s, want %s", i, got, want)
		}
		status = http.StatusOK
	}
	if got := way(t, r, f.Key); got != "applied@1 applied@1 " {
		t.Error(got)
	}
}
