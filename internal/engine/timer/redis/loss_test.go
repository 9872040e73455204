package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

func someKey(i int) timer.Key {
	k := timer.Key{Kind: timer.Park}
	copy(k.ID[:], fmt.Sprintf("key %d", i))
	return k
}

func arm(t testing.TB, q timer.Queue, entries ...timer.Entry) {
	t.Helper()
	if err := q.Arm(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

func lease(t testing.TB, q timer.Queue, limit int) timer.Batch {
	t.Helper()
	b, err := q.Lease(t.Context(), timer.Park, limit, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// leaseAll leases until no timer is due.
func leaseAll(t testing.TB, q timer.Queue) timer.Batch {
	t.Helper()
	var fired []timer.Fired
	for {
		b := lease(t, q, 100)
		if fired = append(fired, b.Fired...); b.Wait > 0 {
			b.Fired = fired
			return b
		}
	}
}

func done(t testing.TB, q timer.Queue, f timer.Fired) {
	t.Helper()
	if _, err := q.Settle(t.Context(), []timer.Outcome{{Key: f.Key, Token: f.Token, Verdict: timer.Done}}); err != nil {
		t.Fatal(err)
	}
}

// TestAReturnedMasterIsALoss: a master that returns after a fail-over lacks the writes of its
// replacement, although its run has not ended.
func TestAReturnedMasterIsALoss(t *testing.T) {
	t.Parallel()
	srv, c := startServer(t), timertest.NewClock()
	opt := virtual(srv.options(), c)
	opt.Shards = 8
	q := newSuite(t, opt)
	arm(t, q, timer.Entry{Key: someKey(1), Gen: 1, Idle: 30 * time.Second})
	before := leaseAll(t, q)
	db := srv.client()
	for _, master := range [][]any{{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}} {
		if err := db.Do(t.Context(), master...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	c.Advance(30 * time.Second)
	after := leaseAll(t, q)
	if after.Epoch == before.Epoch || len(after.Fired) != 0 {
		t.Errorf("before: %+v; after: %+v", before, after)
	}
}

// TestKilledServerIsALoss: a killed server may have lost the end of its log. Nothing fires before
// the owner learns of it; the timers, leases and tokens that it kept are intact.
func TestKilledServerIsALoss(t *testing.T) {
	t.Parallel()
	srv, c := startServer(t), timertest.NewClock()
	opt := virtual(srv.options(), c)
	opt.Shards = 8
	q := newSuite(t, opt)
	for i := range 20 {
		arm(t, q, timer.Entry{Key: someKey(i), Gen: 1, Idle: 30 * time.Second})
	}
	arm(t, q, timer.Entry{Key: someKey(99), Gen: 1})
	before := leaseAll(t, q)
	if len(before.Fired) != 1 {
		t.Fatalf("fired %+v", before.Fired)
	}
	srv.kill()
	if _, err := q.Lease(t.Context(), timer.Park, 1, time.Minute); err == nil {
		t.Error("a lease from a dead server succeeded")
	}
	srv.start()
	c.Advance(30 * time.Second)
	news := leaseAll(t, q)
	if news.Epoch == before.Epoch || len(news.Fired) > 0 {
		t.Errorf("after the restart %d timers fired before the loss was told (epoch %d, then %d)", len(news.Fired), before.Epoch, news.Epoch)
	}
	after := leaseAll(t, q)
	if after.Epoch != news.Epoch {
		t.Error("one restart was told as two losses")
	}
	if len(after.Fired) != 20 {
		t.Errorf("%d of 20 timers outlived the restart", len(after.Fired))
	}
	done(t, q, before.Fired[0])
	c.Advance(time.Minute)
	for _, f := range leaseAll(t, q).Fired {
		if f.Key == someKey(99) {
			t.Error("a lease from before the restart could not be settled with its token")
		}
	}
	checkConsistent(t, srv.client(), opt.Namespace)
}

// TestEveryInstanceDetectsALoss checks that each instance reports the same loss.
func TestEveryInstanceDetectsALoss(t *testing.T) {
	t.Parallel()
	srv, c := startServer(t), timertest.NewClock()
	opt := virtual(srv.options(), c)
	one, two := newSuite(t, opt), newSuite(t, opt)
	first := [2]uint64{lease(t, one, 1).Epoch, lease(t, two, 1).Epoch}
	if err := srv.client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for i, q := range []suite{one, two} {
		if again := lease(t, q, 1).Epoch; again == first[i] {
			t.Errorf("instance %d did not hear of the loss", i)
		} else if more := lease(t, q, 1).Epoch; more != again {
			t.Errorf("instance %d heard of it twice", i)
		}
	}
}

// TestLossFoundOutsideLeaseIsReported checks that a loss found by StateID is reported by the next
// lease.
func TestLossFoundOutsideLeaseIsReported(t *testing.T) {
	t.Parallel()
	opt, c := at(t, servicetest.Redis), timertest.NewClock()
	q := newSuite(t, virtual(opt, c))
	first := lease(t, q, 1).Epoch
	q.Forget()
	if _, err := q.StateID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := lease(t, q, 1).Epoch; again == first {
		t.Error("the engine does not hear of the loss")
	}
}

// TestLossBeforeTheFirstLeaseIsReported checks a loss of timers that were armed before the first
// lease.
func TestLossBeforeTheFirstLeaseIsReported(t *testing.T) {
	t.Parallel()
	opt, c := at(t, servicetest.Redis), timertest.NewClock()
	q := newSuite(t, virtual(opt, c))
	arm(t, q, timer.Entry{Key: someKey(1), Gen: 1, Idle: time.Hour})
	q.Forget()
	if first := lease(t, q, 1).Epoch; lease(t, q, 1).Epoch == first {
		t.Error("the engine does not hear of the loss")
	}
}

// TestWrongClockAfterFailover fails over to a server with a clock that is a day ahead or behind:
// nothing fires early, the step is reported once, and time continues.
func TestWrongClockAfterFailover(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{24 * time.Hour, -24 * time.Hour, 90 * time.Second} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			srv, c := startServer(t), timertest.NewClock()
			opt := virtual(srv.options(), c)
			var ahead atomic.Int64
			opt.Clock = func() time.Time { return c.Now().Add(time.Duration(ahead.Load())) }
			var told []time.Duration
			opt.OnClockStep = func(by time.Duration) { told = append(told, by) }
			q := newSuite(t, opt)
			for i := range 50 {
				arm(t, q, timer.Entry{Key: someKey(i), Gen: 1, Idle: time.Hour})
			}
			leaseAll(t, q)
			srv.kill()
			srv.start()
			ahead.Store(int64(off))
			c.Advance(59 * time.Minute)
			for range 3 {
				if b := leaseAll(t, q); len(b.Fired) > 0 {
					t.Fatalf("T1: %d timers fired a minute early", len(b.Fired))
				}
			}
			q.Touch(someKey(0))
			q.Flush()
			c.Advance(time.Minute)
			if b := leaseAll(t, q); len(b.Fired) != 49 {
				t.Errorf("T2: %d of 49 timers fired after their hour", len(b.Fired))
			}
			c.Advance(59 * time.Minute)
			if b := leaseAll(t, q); len(b.Fired) == 0 || b.Fired[len(b.Fired)-1].Delivery == 1 && len(b.Fired) != 50 {
				t.Errorf("the touched one did not fire after its hour: %d", len(b.Fired))
			}
			if len(told) != 1 || (told[0]-off).Abs() > time.Second {
				t.Errorf("told of steps by %v", told)
			}
		})
	}
}

// TestWrongClockAfterFailoverAtStart starts an instance after such a fail-over: its own clock holds
// the server's clock back.
func TestWrongClockAfterFailoverAtStart(t *testing.T) {
	t.Parallel()
	opt, c := at(t, servicetest.Redis), timertest.NewClock()
	opt = virtual(opt, c)
	var ahead atomic.Int64
	opt.Clock = func() time.Time { return c.Now().Add(time.Duration(ahead.Load())) }
	arm(t, newSuite(t, opt), timer.Entry{Key: someKey(1), Gen: 1, Idle: time.Hour})
	ahead.Store(int64(24 * time.Hour))
	c.Advance(59 * time.Minute)
	q := newSuite(t, opt)
	if b := lease(t, q, 10); len(b.Fired) > 0 {
		t.Fatal("T1: fired a minute early")
	}
	c.Advance(time.Minute)
	if b := lease(t, q, 10); len(b.Fired) != 1 {
		t.Error("T2: did not fire after its hour")
	}
}

// TestSleeperBelievesTheOthers: an instance on a suspended machine expects a wrong time and adopts
// the clock of the others.
func TestSleeperBelievesTheOthers(t *testing.T) {
	t.Parallel()
	opt, c := at(t, servicetest.Redis), timertest.NewClock()
	opt = virtual(opt, c)
	var slept atomic.Int64
	now := opt.Now
	lazy := opt
	lazy.Now = func() time.Time { return now().Add(-time.Duration(slept.Load())) }
	awake, sleeper := newSuite(t, opt), newSuite(t, lazy)
	arm(t, awake, timer.Entry{Key: someKey(1), Gen: 1, Idle: 3 * time.Hour})
	lease(t, sleeper, 1)
	slept.Store(int64(2 * time.Hour))
	c.Advance(2 * time.Hour)
	for i := range 200 {
		arm(t, awake, timer.Entry{Key: someKey(100 + i), Gen: 1, Idle: 100 * time.Hour}) // all shards know what time it is
	}
	lease(t, sleeper, 1)
	c.Advance(59 * time.Minute)
	if b := lease(t, sleeper, 1); len(b.Fired) > 0 {
		t.Error("T1: fired early")
	}
	c.Advance(time.Minute)
	if b := lease(t, sleeper, 1); len(b.Fired) != 1 {
		t.Error("T2: the time that one machine slept counted for nobody")
	}
}

// TestScriptFlush checks that missing scripts are loaded again, also in pipelines.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	srv, c := startServer(t), timertest.NewClock()
	q := newSuite(t, virtual(srv.options(), c))
	flush := func() {
		if err := srv.client().ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var entries []timer.Entry
	for i := range 300 {
		entries = append(entries, timer.Entry{Key: someKey(i), Gen: 1, Idle: time.Second})
	}
	first := lease(t, q, 1).Epoch
	flush()
	arm(t, q, entries...)
	flush()
	q.Touch(someKey(1))
	q.Flush()
	c.Advance(time.Second)
	flush()
	b := leaseAll(t, q)
	if len(b.Fired) != 300 || b.Epoch != first {
		t.Errorf("%d of 300 timers fired; told as a loss: %v", len(b.Fired), b.Epoch != first)
	}
}

// TestFlushAllInTheMiddle checks that after FLUSHALL the engine reports the loss, its owner arms
// again, and every timer fires, none early.
func TestFlushAllInTheMiddle(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	opt := srv.options()
	opt.MaxWait = 50 * time.Millisecond
	q := open(t, opt)
	const n, idle = 1000, 1500 * time.Millisecond
	var mu sync.Mutex
	var armed time.Time
	fired, all := map[timer.Key]bool{}, make(chan struct{})
	armAll := func(e *timer.Engine, idle time.Duration) error {
		mu.Lock()
		armed = time.Now()
		mu.Unlock()
		var entries []timer.Entry
		for i := range n {
			entries = append(entries, timer.Entry{Key: someKey(i), Gen: 1, Idle: idle})
		}
		return e.Arm(t.Context(), entries...)
	}
	var e *timer.Engine
	e = timer.New(timer.Options{
		Queue:  q,
		OnLoss: func(context.Context) error { return armAll(e, idle) },
		Handlers: map[timer.Kind]timer.Handler{timer.Park: func(_ context.Context, f timer.Fired) error {
			mu.Lock()
			defer mu.Unlock()
			if early := idle - time.Since(armed); early > time.Millisecond { // the servers count whole ones
				t.Errorf("T1: %s fired %v early", f.Key, early)
			}
			if fired[f.Key] = true; len(fired) == n {
				select {
				case <-all:
				default:
					close(all)
				}
			}
			return nil
		}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = q.Run(ctx) })
	run.Go(func() { _ = e.Run(ctx) })
	defer run.Wait()
	defer cancel()
	eventually(t, "the engine has met the queue", func() error {
		if names, _ := q.Owners(); len(names) == 0 {
			return fmt.Errorf("no owners yet")
		}
		return nil
	})
	if err := armAll(e, time.Hour); err != nil { // however long it takes, none is due before all are lost
		t.Fatal(err)
	}
	if err := srv.client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-all:
	case <-time.After(2 * patience):
		mu.Lock()
		t.Errorf("%d of %d timers fired", len(fired), n)
		mu.Unlock()
	}
	if e.Losses() != 1 {
		t.Errorf("one FLUSHALL was counted as %d losses", e.Losses())
	}
}
