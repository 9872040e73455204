package migrate

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/engine/sqldb"
)

// running runs a process's Run.
func running(t *testing.T, p *process) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { must(t, p.m.Run(ctx)) })
	return func() {
		cancel()
		all.Wait()
	}
}

// Without a migration, a process polls once per heartbeat interval and does nothing else. It
// notices a migration from elsewhere within that time, polls fast during it, and slowly again
// afterwards.
func TestIdlePollsRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newSite(t, onSQLite(t), onSQLite(t)), &fleet{}
		s.member = func(*sqldb.DB) Member { return f.join() }
		var beside atomic.Int32
		s.party.Background = func(ctx context.Context) {
			beside.Add(1)
			<-ctx.Done()
			beside.Add(-1)
		}
		here, there := s.mustStart(s.old), s.mustStart(s.old)
		defer here.stop(t)
		defer there.stop(t)
		defer running(t, here)()
		defer running(t, there)()
		queries := func() int { return there.faults[s.old.at].Total() }
		count := func(during time.Duration) int {
			before := queries()
			time.Sleep(during)
			return queries() - before
		}
		seed(t, here.db, 3)
		time.Sleep(time.Minute)
		if n := count(time.Hour); n == 0 || n > int(time.Hour/idleEvery)+1 || beside.Load() != 0 {
			t.Errorf("%d calls in an hour in which nothing moves, %d work for it", n, beside.Load())
		}
		report, err := here.m.Start(t.Context(), Request{ToDB: s.new.at})
		if err != nil || !report.OK {
			t.Fatal(report, err)
		}
		if synctest.Wait(); beside.Load() != 1 {
			t.Error("where it begins it is not known at once")
		}
		time.Sleep(idleEvery + pollEvery)
		if there.m.State().ID == "" || beside.Load() != 2 {
			t.Errorf("after %s the other process knows of %+v, %d work for it", idleEvery, there.m.State(), beside.Load())
		}
		if to, err := here.m.Advance(t.Context(), Fill); err != nil || to != DualWrite {
			t.Fatalf("phase %d: %v", to, err)
		}
		time.Sleep(pollEvery + time.Millisecond)
		if at := there.m.State().Phase; at != DualWrite {
			t.Errorf("%s after its beginning the other process is at phase %d", pollEvery, at)
		}
		for range 2 {
			time.Sleep(pollEvery + time.Millisecond) // until both have heard
			_, err := here.m.Rollback(t.Context(), AnyPhase)
			must(t, err)
		}
		time.Sleep(time.Minute)
		if n := count(time.Hour); n > int(time.Hour/idleEvery)+1 || beside.Load() != 0 || there.m.State().ID != "" {
			t.Errorf("after the end: %d calls in an hour, %d work for it, %+v", n, beside.Load(), there.m.State())
		}
	})
}

// A step works in a process that has not polled since the migration began elsewhere.
func TestStepLoadsStateFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	here, there := s.mustStart(s.old), s.mustStart(s.old)
	defer here.stop(t)
	defer there.stop(t)
	seed(t, here.db, 3)
	report, err := here.m.Start(t.Context(), Request{ToDB: s.new.at})
	if err != nil || !report.OK {
		t.Fatal(report, err)
	}
	must(t, there.m.Verify(t.Context()))
	if there.m.State().ID == "" {
		t.Error("it does not know what moves")
	}
	must(t, there.m.participant.runOnce(t.Context()))
}
