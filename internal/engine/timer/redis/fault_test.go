package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/timertest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// faults is a hook of the client that breaks pipelines: a call is not sent, or its reply is lost.
type faults struct {
	mu     sync.Mutex
	breaks func(n int) (unsent, unheard bool)
	n      int
}

var errCut = errors.New("the connection was cut")

func (f *faults) next() (bool, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.breaks(f.n - 1)
}

func (f *faults) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f *faults) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error { return next(ctx, cmd) }
}

func (f *faults) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		unsent, unheard := f.next()
		if !unsent {
			if err := next(ctx, cmds); !unheard {
				return err
			}
		}
		for _, cmd := range cmds {
			cmd.SetErr(errCut)
		}
		return errCut
	}
}

// stubborn repeats failed calls until they succeed, as the contract allows.
type stubborn struct{ suite }

func (s stubborn) insist(do func() error) error {
	for range 100 {
		if err := do(); !drive.IsKind(err, drive.Unavailable) {
			return err
		}
	}
	return errors.New("it never worked again")
}

func (s stubborn) Arm(ctx context.Context, entries []timer.Entry) error {
	return s.insist(func() error { return s.Queue.Arm(ctx, entries) })
}

func (s stubborn) Cancel(ctx context.Context, key timer.Key, gen int64) error {
	return s.insist(func() error { return s.Queue.Cancel(ctx, key, gen) })
}

func (s stubborn) Lease(ctx context.Context, kind timer.Kind, limit int, hold time.Duration) (b timer.Batch, err error) {
	err = s.insist(func() (err error) {
		b, err = s.Queue.Lease(ctx, kind, limit, hold)
		return err
	})
	return b, err
}

func (s stubborn) Settle(ctx context.Context, outcomes []timer.Outcome) (wait time.Duration, err error) {
	err = s.insist(func() (err error) {
		wait, err = s.Queue.Settle(ctx, outcomes)
		return err
	})
	return wait, err
}

func (s stubborn) Show(ctx context.Context, key timer.Key) (st timer.State, err error) {
	err = s.insist(func() (err error) {
		st, err = s.Queue.Show(ctx, key)
		return err
	})
	return st, err
}

func (s stubborn) Pending(ctx context.Context) (all map[timer.Kind]timer.DueCounts, err error) {
	err = s.insist(func() (err error) {
		all, err = s.Queue.Pending(ctx)
		return err
	})
	return all, err
}

func (s stubborn) Flush() {
	if err := s.insist(func() error { return s.Queue.Flush(s.t.Context()) }); err != nil {
		s.t.Errorf("flush: %v", err)
	}
}

// broken opens queues with pipelines that break.
func broken(t *testing.T, shards int, breaks func(n int) (bool, bool)) func(*testing.T, *timertest.Clock) timer.Queue {
	opt := at(t, servicetest.Redis)
	return func(t *testing.T, c *timertest.Clock) timer.Queue {
		opt := virtual(opt, c)
		opt.Namespace, opt.Shards = servicetest.Unique(), shards
		s := newSuite(t, opt)
		s.Client().AddHook(&faults{breaks: breaks})
		return stubborn{s}
	}
}

// TestCutAfterEveryCall cuts off each call, before or after it takes effect. After a retry no timer
// may be lost, doubled, early or late.
func TestCutAfterEveryCall(t *testing.T) {
	t.Parallel()
	for n := range 16 {
		for _, unsent := range []bool{true, false} {
			t.Run(fmt.Sprintf("call %d, sent %v", n, !unsent), func(t *testing.T) {
				t.Parallel()
				// Twice in a row, or the queue's own second try would hide it.
				timertest.Traces(t, broken(t, 2, func(i int) (bool, bool) {
					hit := i == n || i == n+1
					return hit && unsent, hit && !unsent
				}))
			})
		}
	}
}

// TestCutAtRandom uses one shard: the model does not cover a lease with a lost reply of one shard
// only.
func TestCutAtRandom(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(3, 4))
	timertest.Random(t, broken(t, 1, func(int) (bool, bool) {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(10) == 0, r.IntN(6) == 0
	}))
}
