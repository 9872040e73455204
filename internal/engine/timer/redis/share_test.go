package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// instance is a queue with an engine on it, as a process has them.
type instance struct {
	queue *redis.Queue
	stop  func()
}

func startInstance(t *testing.T, opt redis.Options, handle timer.Handler) *instance {
	t.Helper()
	q := redis.New(opt)
	e := timer.New(timer.Options{Queue: q, Handlers: map[timer.Kind]timer.Handler{timer.Park: handle}})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	run.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	i := &instance{queue: q, stop: sync.OnceFunc(func() {
		cancel()
		run.Wait()
		_ = q.Close()
	})}
	t.Cleanup(i.stop)
	return i
}

// TestInstancesDivideTheShards: each timer is delivered by one of several instances, and the shards
// of a stopped one are taken over at once.
func TestInstancesDivideTheShards(t *testing.T) {
	t.Parallel()
	for _, service := range []servicetest.Service{servicetest.Redis, servicetest.RedisCluster} {
		t.Run(string(service), func(t *testing.T) {
			t.Parallel()
			opt := at(t, service)
			opt.MaxWait = 100 * time.Millisecond
			outside := open(t, opt)
			var mu sync.Mutex
			by := map[timer.Key][]string{}
			fire := func(name string) timer.Handler {
				return func(_ context.Context, f timer.Fired) error {
					mu.Lock()
					defer mu.Unlock()
					by[f.Key] = append(by[f.Key], name)
					return nil
				}
			}
			named := func(name string) redis.Options {
				o := opt
				o.Instance = name
				return o
			}
			one, two := startInstance(t, named("one"), fire("one")), startInstance(t, named("two"), fire("two"))
			eventually(t, "the shards are shared out", func() error {
				_, a := one.queue.Owners()
				_, b := two.queue.Owners()
				if a+b != 64 || a < 16 || b < 16 {
					return fmt.Errorf("one owns %d shards, two owns %d", a, b)
				}
				return nil
			})
			armSome := func(from, n int) {
				var entries []timer.Entry
				for i := range n {
					entries = append(entries, timer.Entry{Key: someKey(from + i), Gen: 1, Idle: time.Duration(i) * time.Millisecond})
				}
				arm(t, outside, entries...)
			}
			deliveredBy := func(from, n int) map[string]int {
				mu.Lock()
				defer mu.Unlock()
				names := map[string]int{}
				for i := range n {
					names[by[someKey(from+i)][0]]++
				}
				return names
			}
			delivered := func(n int) {
				eventually(t, "all timers are delivered", func() error {
					mu.Lock()
					defer mu.Unlock()
					if len(by) != n {
						return fmt.Errorf("%d of %d are", len(by), n)
					}
					return nil
				})
			}
			const round = 500
			from := 0
			// Another instance helps one that is delayed, so the test waits for a round without
			// help, which shows the shares.
			eventually(t, "each does its part", func() error {
				armSome(from, round)
				from += round
				delivered(from)
				if n := deliveredBy(from-round, round)["two"]; n < round/5 || n > round-round/5 {
					return fmt.Errorf("one of two delivered %d of %d", n, round)
				}
				return nil
			})
			two.stop()
			armSome(from, round)
			delivered(from + round)
			mu.Lock()
			defer mu.Unlock()
			for key, who := range by {
				if len(who) != 1 {
					t.Errorf("%s was delivered by %v", key, who)
				}
			}
		})
	}
}

// TestShardsOfDeadInstancesAreReassigned: until the announcement of a dead instance expires, other
// instances poll its shards.
func TestShardsOfDeadInstancesAreReassigned(t *testing.T) {
	t.Parallel()
	opt := at(t, servicetest.Redis)
	opt.MaxWait, opt.Instance = 50*time.Millisecond, "alive"
	q := open(t, opt)
	c := q.Client()
	until := float64(time.Now().Add(time.Hour).UnixMilli())
	if err := c.ZAdd(t.Context(), "{"+opt.Namespace+":timers}:live", goredis.Z{Score: until, Member: "dead"}).Err(); err != nil {
		t.Fatal(err)
	}
	fired := make(chan timer.Key, 100)
	i := startInstance(t, opt, func(_ context.Context, f timer.Fired) error {
		fired <- f.Key
		return nil
	})
	eventually(t, "the dead one has its share", func() error {
		if _, own := i.queue.Owners(); own == 0 || own == 64 {
			return fmt.Errorf("%d of 64 shards are its own", own)
		}
		return nil
	})
	for n := range 100 {
		arm(t, q, timer.Entry{Key: someKey(n), Gen: 1})
	}
	for n := range 100 {
		select {
		case <-fired:
		case <-time.After(2 * patience):
			t.Fatalf("%d of 100 timers were delivered", n)
		}
	}
}

// TestOtherLayoutIsRefused: processes with different numbers of shards would not find each other's
// timers, so the second one fails.
func TestOtherLayoutIsRefused(t *testing.T) {
	t.Parallel()
	opt := at(t, servicetest.Redis)
	if _, err := open(t, opt).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	opt.Shards = 32
	q := open(t, opt)
	if _, err := q.Check(t.Context()); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("check of a queue of other shards: %v", err)
	}
	if err := q.Run(t.Context()); err == nil {
		t.Error("it runs")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, service := range []servicetest.Service{servicetest.Redis, servicetest.RedisCluster} {
		if _, err := open(t, at(t, service)).Check(t.Context()); err != nil {
			t.Errorf("%s: %v", service, err)
		}
	}
	opt := at(t, servicetest.RedisCluster)
	opt.Addrs, opt.Cluster = opt.Addrs[:1], false
	if _, err := redis.New(opt).Check(t.Context()); err == nil {
		t.Error("one node of a cluster was taken for all")
	}
	opt = at(t, servicetest.Redis)
	opt.Addrs = []string{"127.0.0.1:1"}
	if _, err := redis.New(opt).Check(t.Context()); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("nobody there: %v", err)
	}
}

// After an outage of hours all due timers fire, the oldest first, through slices of minutes and
// hours.
func TestOutageOfHours(t *testing.T) {
	t.Parallel()
	opt, c := at(t, servicetest.Redis), timertest.NewClock()
	opt = virtual(opt, c)
	opt.Shards = 1
	q := newSuite(t, opt)
	const n = 2000
	var entries []timer.Entry
	for i := range n {
		idle := time.Duration(i*7919%n) * 18 * time.Second // up to 10 h: from an hour on by the hour
		entries = append(entries, timer.Entry{Key: someKey(i), Gen: 1, Idle: idle})
	}
	arm(t, q, entries...)
	checkConsistent(t, q.Client(), opt.Namespace)
	c.Advance(9 * time.Hour)
	var last drive.Time
	got := 0
	for {
		b := lease(t, q, 50)
		for _, f := range b.Fired {
			if f.Due < last {
				t.Fatalf("%v came after %v", f.Due, last)
			}
			last = f.Due
		}
		if got += len(b.Fired); len(b.Fired) == 0 && b.Wait > 0 {
			break
		}
	}
	if want := n*9/10 + 1; got != want {
		t.Errorf("%d timers fired, %d are due", got, want)
	}
	checkConsistent(t, q.Client(), opt.Namespace)
}

// A timer's slice is known and follows it: to another minute when it is touched, to another hour,
// and from hours to minutes when it is armed again.
func TestSlices(t *testing.T) {
	t.Parallel()
	opt, c := at(t, servicetest.Redis), timertest.NewClock() // 12:00:00
	opt = virtual(opt, c)
	q := newSuite(t, opt)
	key := someKey(1)
	slice := func(want string) {
		t.Helper()
		st, err := q.Show(t.Context(), key)
		if err != nil || st.Slice != want {
			t.Fatalf("in slice %q, want %q (%v)", st.Slice, want, err)
		}
		checkConsistent(t, q.Client(), opt.Namespace)
	}
	arm(t, q, timer.Entry{Key: key, Gen: 1, Idle: 90 * time.Second})
	slice("2026-03-01 12:01")
	c.Advance(80 * time.Second)
	q.Touch(key)
	q.Flush()
	slice("2026-03-01 12:01") // activity moves nothing
	c.Advance(10 * time.Second)
	lease(t, q, 1)
	slice("2026-03-01 12:02") // until it comes up
	arm(t, q, timer.Entry{Key: key, Gen: 1, Idle: 20 * time.Second})
	slice("2026-03-01 12:01")
	arm(t, q, timer.Entry{Key: key, Gen: 2, Idle: 7 * 24 * time.Hour})
	slice("2026-03-08 12h")
	arm(t, q, timer.Entry{Key: key, Gen: 2, Idle: 7 * 24 * time.Hour, Max: time.Minute})
	slice("2026-03-01 12:02")
	arm(t, q, timer.Entry{Key: key, Gen: 3, Idle: 2 * time.Hour})
	slice("2026-03-01 14h")
	if err := q.Cancel(t.Context(), key, 3); err != nil {
		t.Fatal(err)
	}
	if left := q.Client().Keys(t.Context(), "{"+opt.Namespace+":*:[a-z]*:[a-z]*").Val(); len(left) > 0 {
		t.Errorf("after the last timer went there are still %v", left)
	}
}
