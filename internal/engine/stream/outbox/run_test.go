package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/stream/streamtest"
)

// call is one call of a handler, in virtual time since the test began.
type call struct {
	Subject string
	At      time.Duration
}

// loop is a consumer's Run in a bubble of virtual time.
type loop struct {
	f     *streamtest.Fixture
	calls chan call
	stop  func()
}

func start(t *testing.T, f *streamtest.Fixture, answer func(subject string) error) *loop {
	begin, calls := time.Now(), make(chan call, 100)
	runner := stream.NewRunner(f.Source, stream.Consumer{
		Name: "w", Topic: stream.TopicUploads,
		Handle: func(_ context.Context, r stream.Record) error {
			calls <- call{r.Subject, time.Since(begin)}
			return answer(r.Subject)
		},
	}, stream.Options{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	return &loop{f: f, calls: calls, stop: func() {
		cancel()
		for {
			select {
			case <-calls: // of a handler that would wait for ever for somebody to hear of it
			case err := <-done:
				if err != nil {
					t.Errorf("run: %v", err)
				}
				return
			}
		}
	}}
}

func bubble(t *testing.T, test func(t *testing.T, f *streamtest.Fixture)) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "a connection to a server does not live in virtual time")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		o := outbox.New(db, outbox.Options{Source: "smartdrive/test", Log: slog.New(slog.DiscardHandler)})
		test(t, &streamtest.Fixture{DB: db, Publisher: o, Source: o, Dead: o})
	})
}

func (l *loop) expect(t *testing.T, want ...call) {
	t.Helper()
	for _, w := range want {
		if diff := cmp.Diff(w, <-l.calls); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestRunIsWokenByACommitAndByARetryThatIsDue(t *testing.T) {
	bubble(t, func(t *testing.T, f *streamtest.Fixture) {
		fail := true
		l := start(t, f, func(subject string) error {
			if subject == "a" && fail {
				fail = false
				return errors.New("no")
			}
			return nil
		})
		synctest.Wait() // it sleeps
		f.Publish(t, streamtest.Account, "a", "b")
		l.expect(t, call{"a", 0}, call{"b", 0}, call{"a", 5 * time.Second})
		f.Publish(t, streamtest.Account, "c")
		l.expect(t, call{"c", 5 * time.Second})
		l.stop()
	})
}

func TestRunSettlesWhatItHandledWhenItStops(t *testing.T) {
	bubble(t, func(t *testing.T, f *streamtest.Fixture) {
		f.Publish(t, streamtest.Account, "a")
		first := start(t, f, func(string) error { return nil })
		first.expect(t, call{"a", 0})
		first.stop()
		second := start(t, f, func(string) error { return nil })
		synctest.Wait()
		f.Publish(t, streamtest.Account, "b")
		second.expect(t, call{"b", 0})
		second.stop()
	})
}

func TestRunSettlesGatheredAcksInTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *streamtest.Fixture) {
		f.Publish(t, streamtest.Account, "a")
		l := start(t, f, func(string) error { return nil })
		l.expect(t, call{"a", 0})
		<-time.After(time.Second + time.Millisecond)
		synctest.Wait()
		var position int64
		if err := f.DB.QueryRow(t.Context(), "SELECT position FROM cursors").Scan(&position); err != nil || position != 1 {
			t.Errorf("cursor at %d, error %v", position, err)
		}
		l.stop()
	})
}

func TestRunBacksOffDuringAnOutageAndLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *streamtest.Fixture) {
		const outage = time.Hour
		begin := time.Now()
		l := start(t, f, func(string) error {
			if time.Since(begin) < outage {
				return drive.Fail(drive.Unavailable)
			}
			return nil
		})
		f.Publish(t, streamtest.Account, "a")
		tries := 0
		for c := range l.calls {
			tries++
			f.Publish(t, streamtest.Account, "b") // must not cut the pause short
			synctest.Wait()
			if c.Subject != "a" {
				t.Fatalf("%s was handed over out of turn", c.Subject)
			}
			if c.At >= outage {
				break
			}
		}
		if tries < 360 || tries > 760 { // 5 to 10 s apart, but for the first ones
			t.Errorf("%d tries in an hour", tries)
		}
		f.Publish(t, streamtest.Account, "b")
		if c := <-l.calls; c.Subject != "b" || c.At > outage+11*time.Second {
			t.Errorf("then %s at %v", c.Subject, c.At)
		}
		synctest.Wait() // as on a slow machine: the loop is a hundred records further
		l.stop()
	})
}

// TestRunFindsAnUnannouncedRecord: a wake-up can be lost with the reply to a commit.
func TestRunFindsAnUnannouncedRecord(t *testing.T) {
	bubble(t, func(t *testing.T, f *streamtest.Fixture) {
		l := start(t, f, func(string) error { return nil })
		synctest.Wait()
		deaf := *f
		deaf.Publisher = outbox.New(f.DB, outbox.Options{Source: "smartdrive/test", Log: slog.New(slog.DiscardHandler)})
		deaf.Publish(t, streamtest.Account, "a")
		l.expect(t, call{"a", 15 * time.Second})
		l.stop()
	})
}

func TestRunIsWokenByAReplay(t *testing.T) {
	bubble(t, func(t *testing.T, f *streamtest.Fixture) {
		err := f.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return f.Dead.Add(ctx, tx, "w", streamtest.Records(t, streamtest.Account, "a")[0], 1, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		l := start(t, f, func(string) error { return nil })
		synctest.Wait()
		if err := f.Dead.Replay(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		l.expect(t, call{"a", 0})
		l.stop()
	})
}

func TestStopConsumesNoAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, f *streamtest.Fixture) {
		release := make(chan struct{})
		first := start(t, f, func(string) error { <-release; return errors.New("torn away") })
		f.Publish(t, streamtest.Account, "a")
		first.expect(t, call{"a", 0})
		go func() { synctest.Wait(); close(release) }()
		first.stop()
		second := start(t, f, func(string) error { return nil })
		second.expect(t, call{"a", 0})
		second.stop()
		if n := rowsOf(t, f, "deliveries"); n != 0 {
			t.Errorf("%d records wait for a retry", n)
		}
	})
}
