package instance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// job counts who runs it.
type job struct {
	running, most, starts atomic.Int32
	by                    [4]atomic.Int32 // running, by the generation
}

func (j *job) run(ctx context.Context, by int64) error {
	j.starts.Add(1)
	n := j.running.Add(1)
	defer j.running.Add(-1)
	j.by[by].Add(1)
	defer j.by[by].Add(-1)
	j.most.Store(max(j.most.Load(), n))
	<-ctx.Done()
	return ctx.Err()
}

// leads runs a member and its wish for a lease.
func leads(t *testing.T, m *Member, j *job) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	running.Go(func() {
		_ = m.Lead(ctx, "job", func(ctx context.Context) error { return j.run(ctx, m.Info().Generation) })
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// TestOneInstanceRunsTheJob: of three instances one runs the job. When it is cut off, it stops
// before another starts; when it leaves, another starts at once.
func TestOneInstanceRunsTheJob(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		var all job
		members := map[int64]*Member{}
		cables := map[int64]*network{}
		stops := map[int64]func(){}
		for g := range int64(3) {
			members[g+1], cables[g+1] = join(t, db, g+1)
			stops[g+1] = leads(t, members[g+1], &all)
		}
		time.Sleep(time.Minute + time.Second)
		holder := holderOf(t, members[1])
		if all.running.Load() != 1 || all.starts.Load() != 1 {
			t.Fatalf("%d run, %d began", all.running.Load(), all.starts.Load())
		}
		cables[holder].cut.Store(true)
		time.Sleep(ttl - margin)
		if all.by[holder].Load() != 0 {
			t.Error("the job goes on without a heartbeat")
		}
		time.Sleep(margin + 2*heartbeatEvery)
		next := holderOf(t, members[1])
		if all.running.Load() != 1 || next == holder {
			t.Errorf("%d run, start %d of %d holds the lease", all.running.Load(), next, holder)
		}
		cables[holder].cut.Store(false)
		time.Sleep(time.Minute)
		if now := holderOf(t, members[1]); now != next {
			t.Error("who comes back takes the lease from the living")
		}
		stops[next]()
		if err := members[next].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(heartbeatEvery + time.Second)
		if all.running.Load() != 1 {
			t.Error("nobody took over at once from who left")
		}
		for g, stop := range stops {
			if g != next {
				stop()
			}
		}
		if all.most.Load() != 1 || all.running.Load() != 0 {
			t.Errorf("%d ran at once, %d run after the end", all.most.Load(), all.running.Load())
		}
	})
}

func holderOf(t *testing.T, m *Member) int64 {
	t.Helper()
	leases, err := m.Leases(t.Context())
	if err != nil || len(leases) != 1 || leases[0].Name != "job" {
		t.Fatalf("leases: %+v, %v", leases, err)
	}
	return leases[0].Generation
}

func TestFailedJobRestarts(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		m, _ := join(t, sqldbtest.Open(t), 1)
		stop := runs(t, m)
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		err := m.Lead(ctx, "job", func(context.Context) error {
			if tries++; tries == 3 {
				cancel()
			}
			return errors.New("boom")
		})
		if err != nil || tries != 3 {
			t.Errorf("%d tries, %v", tries, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestLeaseHasOneHolder: of several instances that see a free lease, one acquires it.
func TestLeaseHasOneHolder(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	joined := drive.TimeOf(time.Now()) // and nobody dies, however long the rounds take
	var members []*Member
	for g := range int64(8) {
		m, _ := join(t, db, g+1)
		m.opt.Now = func(context.Context) (drive.Time, error) { return joined, nil }
		m.trust(time.Now().Add(time.Hour))
		members = append(members, m)
	}
	for round := int64(1); round <= 20; round++ {
		var taken atomic.Int32
		var winner atomic.Pointer[Member]
		var all sync.WaitGroup
		for _, m := range members {
			all.Go(func() {
				epoch, err := m.acquire(t.Context(), "job")
				switch {
				case err != nil:
					t.Error(err)
				case epoch > 0:
					taken.Add(1)
					winner.Store(m)
					if epoch != round {
						t.Errorf("round %d has epoch %d", round, epoch)
					}
				}
			})
		}
		all.Wait()
		if taken.Load() != 1 {
			t.Fatalf("round %d: %d took it", round, taken.Load())
		}
		if err := winner.Load().release(t.Context(), "job", round); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALateReleaseChangesNothing: a late release does not free a lease that another instance holds.
func TestALateReleaseChangesNothing(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		a, _ := join(t, db, 1)
		if epoch, err := a.acquire(t.Context(), "job"); err != nil || epoch != 1 {
			t.Fatal(epoch, err)
		}
		time.Sleep(ttl)
		b, _ := join(t, db, 2)
		if epoch, err := b.acquire(t.Context(), "job"); err != nil || epoch != 2 {
			t.Fatal(epoch, err)
		}
		if err := a.release(t.Context(), "job", 1); err != nil {
			t.Fatal(err)
		}
		if got := holderOf(t, b); got != 2 {
			t.Errorf("start %d holds the lease", got)
		}
		if epoch, err := a.acquire(t.Context(), "job"); err != nil || epoch != 0 {
			t.Errorf("who is not trusted took it: %d, %v", epoch, err)
		}
	})
}

// TestDeadHolderAfterClockSetBack: after a fail-over to a database server with a clock that is a
// day behind, the job of a dead holder is taken over without waiting a day.
func TestDeadHolderAfterClockSetBack(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	clock := func(by time.Duration) func(context.Context) (drive.Time, error) {
		return func(context.Context) (drive.Time, error) { return drive.TimeOf(time.Now().Add(by)), nil }
	}
	dead, _ := join(t, db, 1)
	m, _ := join(t, db, 2)
	dead.opt.Now = clock(24 * time.Hour)
	if err := dead.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epoch, err := dead.acquire(t.Context(), "job"); err != nil || epoch != 1 {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	if epoch, err := m.acquire(t.Context(), "job"); err != nil || epoch != 2 {
		t.Errorf("epoch %d, %v", epoch, err)
	}
	// One that lives says so by the clock as it is now.
	dead.opt.Now = clock(0)
	if err := m.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epoch, err := dead.acquire(t.Context(), "job"); err != nil || epoch != 0 {
		t.Errorf("epoch %d, %v", epoch, err)
	}
}
