package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// network is what lies between an instance and its database.
type network struct{ cut atomic.Bool }

func (n *network) now(context.Context) (drive.Time, error) {
	if n.cut.Load() {
		return 0, drive.Fail(drive.Unavailable)
	}
	return drive.TimeOf(time.Now()), nil
}

func join(t *testing.T, db *sqldb.DB, generation int64) (*Member, *network) {
	t.Helper()
	n := new(network)
	m, err := Join(t.Context(), db, Options{Info: infoOf(generation), Now: n.now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m, n
}

func infoOf(generation int64) Info {
	return Info{Generation: generation, ID: fmt.Sprint("dir-", generation), Host: "host", Roles: "api", Version: "v1"}
}

// runs lets a member live until the returned function, which returns how it ended, is called.
func runs(t *testing.T, m *Member) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func isAlive(t *testing.T, by *Member, generation int64) bool {
	t.Helper()
	alive, err := by.IsAlive(t.Context(), generation)
	if err != nil {
		t.Fatal(err)
	}
	return alive
}

func TestInstanceIsAliveWhileHeartbeatsArrive(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		a, cable := join(t, db, 1)
		b, _ := join(t, db, 2)
		stopA, stopB := runs(t, a), runs(t, b)
		time.Sleep(time.Hour + time.Second) // not at the moment of a heartbeat
		if !isAlive(t, b, 1) || !isAlive(t, a, 2) || isAlive(t, a, 3) {
			t.Error("the living are not known")
		}
		cable.cut.Store(true)
		time.Sleep(ttl - 2*time.Second)
		if !isAlive(t, b, 1) {
			t.Error("it is dead before its time")
		}
		time.Sleep(2 * time.Second)
		if isAlive(t, b, 1) || !isAlive(t, b, 2) {
			t.Error("it is alive without a heartbeat")
		}
		cable.cut.Store(false)
		time.Sleep(heartbeatEvery)
		if !isAlive(t, b, 1) {
			t.Error("it cannot come back")
		}
		if err := errors.Join(stopA(), a.Leave(t.Context())); err != nil {
			t.Error(err)
		}
		if isAlive(t, b, 1) {
			t.Error("it left and is alive")
		}
		if err := stopB(); err != nil {
			t.Error(err)
		}
	})
}

func TestANewStartFromTheSameDirectoryEndsTheOld(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		old, n := join(t, db, 1)
		hold := func() error {
			return db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return old.FenceTx(ctx, tx) })
		}
		if err := hold(); err != nil {
			t.Errorf("the only one is not held: %v", err)
		}
		in := infoOf(2)
		in.ID = old.Info().ID
		if _, err := Join(t.Context(), db, Options{Info: in, Exclusive: true, Now: n.now}); err != nil {
			t.Fatalf("the lock was ours, and yet: %v", err)
		}
		if err := hold(); !drive.IsKind(err, drive.Stopping) || !errors.Is(err, ErrEnded) {
			t.Errorf("an ended instance writes: %v", err)
		}
		if err := old.Run(t.Context()); !errors.Is(err, ErrEnded) {
			t.Errorf("an ended instance goes on: %v", err)
		}
	})
}

func TestOnlyRefusesASecondInstance(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		_, n := join(t, db, 1)
		second := Options{Info: infoOf(2), Exclusive: true, Now: n.now}
		_, err := Join(t.Context(), db, second)
		if !drive.IsKind(err, drive.Unavailable) || !strings.Contains(err.Error(), `start 1 on host "host"`) {
			t.Errorf("a second one: %v", err)
		}
		time.Sleep(ttl)
		m, err := Join(t.Context(), db, second)
		if err != nil {
			t.Fatalf("after the death of the first: %v", err)
		}
		if !isAlive(t, m, 2) || isAlive(t, m, 1) {
			t.Error("who joined is not alive, or the dead one is")
		}
	})
}

// The reply to an insert may be lost, and the same is tried again.
func TestJoiningTwiceIsOnce(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	join(t, db, 7)
	m, _ := join(t, db, 7)
	all, err := m.List(t.Context())
	if err != nil || len(all) != 1 || !all[0].Alive {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		a, cableA := join(t, db, 1)
		b, cableB := join(t, db, 2)
		stopA, stopB := runs(t, a), runs(t, b)
		ends := func(generation int64) bool {
			t.Helper()
			ended, err := b.EndDead(t.Context(), generation)
			if err != nil {
				t.Fatal(err)
			}
			return ended
		}
		time.Sleep(time.Minute + time.Second)
		if ends(1) || ends(2) {
			t.Error("a living one was ended")
		}
		if !ends(99) {
			t.Error("one that never was has not ended")
		}
		cableA.cut.Store(true) // an outage for both
		cableB.cut.Store(true)
		time.Sleep(10 * time.Minute)
		cableB.cut.Store(false)
		time.Sleep(heartbeatEvery)
		if ends(1) {
			t.Error("an outage of the database ended those whose heartbeat had not come yet")
		}
		time.Sleep(2 * ttl)
		if !ends(1) {
			t.Error("a dead one is not ended")
		}
		cableA.cut.Store(false)
		time.Sleep(heartbeatEvery)
		if err := stopA(); !errors.Is(err, ErrEnded) {
			t.Errorf("it came back: %v", err)
		}
		if err := stopB(); err != nil {
			t.Error(err)
		}
	})
}

func TestAloneUsesNoDatabase(t *testing.T) {
	t.Parallel()
	m := Alone(infoOf(5))
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	if err := m.Lead(ctx, "job", func(context.Context) error { ran++; cancel(); return nil }); err != nil || ran != 1 {
		t.Errorf("ran %d times, %v", ran, err)
	}
	if err := errors.Join(m.Run(ctx), m.FenceTx(ctx, nil), m.Leave(ctx)); err != nil {
		t.Error(err)
	}
	if !isAlive(t, m, 5) || isAlive(t, m, 4) {
		t.Error("not only itself is alive")
	}
	if all, err := m.List(t.Context()); err != nil || len(all) != 1 || all[0].JoinedAt == 0 || all[0].SeenAt < all[0].JoinedAt {
		t.Errorf("it is listed as %+v: %v", all, err)
	}
	for generation, want := range map[int64]bool{4: true, 5: false} {
		if ended, err := m.EndDead(t.Context(), generation); err != nil || ended != want {
			t.Errorf("start %d has ended: %t, %v", generation, ended, err)
		}
	}
}

// Instances decide on the death of others by the database's clock. The test moves its own clock in
// steps, so that it runs on every database.
func TestDeathAndEndByTheDatabase(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	var clock atomic.Int64
	clock.Store(int64(drive.TimeOf(time.Now())))
	now := func(context.Context) (drive.Time, error) { return drive.Time(clock.Load()), nil }
	var all []*Member
	for g := range int64(2) {
		m, err := Join(t.Context(), db, Options{Info: infoOf(g + 1), Now: now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	a, b := all[0], all[1]
	if epoch, err := a.acquire(t.Context(), "job"); err != nil || epoch != 1 {
		t.Fatal(epoch, err)
	}
	if epoch, err := b.acquire(t.Context(), "job"); err != nil || epoch != 0 {
		t.Fatalf("the lease of a living one was taken: %d, %v", epoch, err)
	}
	clock.Add(ttl.Milliseconds() + 1)
	if err := b.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if isAlive(t, b, 1) || !isAlive(t, b, 2) {
		t.Error("the dead one is alive, or the living one is dead")
	}
	if epoch, err := b.acquire(t.Context(), "job"); err != nil || epoch != 2 {
		t.Errorf("the lease of a dead one: %d, %v", epoch, err)
	}
	hold := func(m *Member) error {
		return db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return m.FenceTx(ctx, tx) })
	}
	if err := errors.Join(hold(a), hold(b)); err != nil {
		t.Errorf("nobody has ended yet: %v", err)
	}
	b.steadySince = b.steadySince.Add(-2 * ttl)
	if ended, err := b.EndDead(t.Context(), 1); err != nil || !ended {
		t.Errorf("the dead one: %t, %v", ended, err)
	}
	if err := hold(a); !drive.IsKind(err, drive.Stopping) {
		t.Errorf("an ended one may write: %v", err)
	}
	if err := a.beat(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("an ended one came back: %v", err)
	}
	if oldest, err := b.Oldest(t.Context()); err != nil || oldest == 0 {
		t.Errorf("the oldest joined at %v, %v", oldest, err)
	}
}

// The monotonic clock of a suspended machine stands still. After it wakes up, the wall clock shows
// that its leases have expired, until the next heartbeat.
func TestSuspendedMachineDistrustsLeases(t *testing.T) {
	t.Parallel()
	m, _ := join(t, sqldbtest.Open(t), 1)
	m.trust(time.Now())
	if !m.trusted() {
		t.Fatal("no leases after a heartbeat")
	}
	m.leasesUntilWall = m.leasesUntilWall.Add(-ttl) // as if ttl had passed on the wall alone
	if m.trusted() {
		t.Error("it woke up and still trusts its leases")
	}
	m.trust(time.Now())
	if !m.trusted() {
		t.Error("no leases after the next heartbeat")
	}
}

// A transaction that holds its instance keeps others from ending it until it is over.
func TestHoldBlocksEnd(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	var ahead atomic.Int64
	now := func(context.Context) (drive.Time, error) {
		return drive.TimeOf(time.Now().Add(time.Duration(ahead.Load()))), nil
	}
	a, err := Join(t.Context(), db, Options{Info: infoOf(1), Now: now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(2 * ttl))
	b, err := Join(t.Context(), db, Options{Info: infoOf(2), Now: now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b.steadySince = b.steadySince.Add(-2 * ttl)
	var order []string
	ended := make(chan error, 1)
	err = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := a.FenceTx(ctx, tx); err != nil {
			return err
		}
		go func() {
			_, err := b.EndDead(context.WithoutCancel(ctx), 1)
			ended <- err
		}()
		select {
		case <-ended:
			order = append(order, "ended")
		case <-time.After(200 * time.Millisecond):
		}
		order = append(order, "written")
		return nil
	})
	if err != nil || len(order) != 1 {
		t.Fatalf("it was ended in the middle of its transaction: %v, %v", order, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestBetweenRunsWhileNoInstanceIsAlive: a frozen instance, and one that joins during the change,
// notice at their next heartbeat that they have ended.
func TestBetweenRunsWhileNoInstanceIsAlive(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "time stands still while the network is waited for")
	synctest.Test(t, func(t *testing.T) {
		db := sqldbtest.Open(t)
		frozen, n := join(t, db, 1)
		left, _ := join(t, db, 2)
		var late *Member
		change := func() error {
			late, _ = join(t, db, 3)
			return nil
		}
		time.Sleep(ttl - time.Second)
		if err := RunExclusive(t.Context(), db, n.now, change); !drive.IsKind(err, drive.Unavailable) || late != nil {
			t.Errorf("two are alive: %v", err)
		}
		if err := errors.Join(left.Leave(t.Context()), frozen.beat(t.Context())); err != nil {
			t.Errorf("ended although one was alive: %v", err)
		}
		time.Sleep(ttl)
		if err := RunExclusive(t.Context(), db, n.now, change); err != nil || late == nil {
			t.Errorf("nobody is alive: %v", err)
		}
		for _, m := range []*Member{frozen, late} {
			if err := m.Run(t.Context()); !errors.Is(err, ErrEnded) {
				t.Errorf("goes on: %v", err)
			}
		}
		after, _ := join(t, db, 4)
		if err := after.beat(t.Context()); err != nil {
			t.Errorf("who comes afterwards: %v", err)
		}
		failed := errors.New("failed")
		time.Sleep(2 * ttl)
		if err := RunExclusive(t.Context(), db, n.now, func() error { return failed }); !errors.Is(err, failed) {
			t.Errorf("a change that fails: %v", err)
		}
	})
}
