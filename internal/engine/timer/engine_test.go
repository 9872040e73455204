package timer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
)

// rig is an engine that runs on a memory queue, in the virtual time of a synctest bubble.
type rig struct {
	*timer.Engine
	t     *testing.T
	queue *spy
	begun time.Time
	stop  func()
}

// start makes and runs an engine; handlers are for timers of kind Park.
func start(t *testing.T, opt timer.Options) *rig {
	t.Helper()
	r := &rig{t: t, queue: &spy{Queue: memory.New(memory.Options{})}, begun: time.Now()}
	opt.Queue = r.queue
	r.Engine = timer.New(opt)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *rig) arm(entries ...timer.Entry) {
	r.t.Helper()
	if err := r.Arm(r.t.Context(), entries...); err != nil {
		r.t.Fatal(err)
	}
}

// spy counts the leases of a queue and injects faults.
type spy struct {
	*memory.Queue
	leases    atomic.Int64
	leaseErrs atomic.Int64 // so many leases fail
	lostAcks  atomic.Int64 // so many settles are done by nobody, and reported as an error
	arms      atomic.Int64
	armErrs   atomic.Int64 // so many arms are done by nobody, and reported as an error
	armHalf   atomic.Bool  // arms are done, and reported as an error, as of a batch of which others could not be armed
}

func (q *spy) Arm(ctx context.Context, entries []timer.Entry) error {
	q.arms.Add(1)
	if q.armErrs.Add(-1) >= 0 {
		return drive.Fail(drive.Unavailable)
	}
	err := q.Queue.Arm(ctx, entries)
	if err == nil && q.armHalf.Load() {
		err = drive.Fail(drive.Unavailable)
	}
	return err
}

func (q *spy) Lease(ctx context.Context, k timer.Kind, limit int, hold time.Duration) (timer.Batch, error) {
	q.leases.Add(1)
	if q.leaseErrs.Add(-1) >= 0 {
		return timer.Batch{}, drive.Fail(drive.Unavailable)
	}
	return q.Queue.Lease(ctx, k, limit, hold)
}

func (q *spy) Settle(ctx context.Context, outcomes []timer.Outcome) (time.Duration, error) {
	if q.lostAcks.Add(-1) >= 0 {
		return timer.Never, drive.Fail(drive.Unavailable)
	}
	return q.Queue.Settle(ctx, outcomes)
}

// diary records when handlers ran, in virtual time since the start.
type diary struct {
	mu    sync.Mutex
	begun time.Time
	at    []time.Duration
	fired []timer.Fired
}

func newDiary() *diary { return &diary{begun: time.Now()} }

func (d *diary) note(f timer.Fired) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.fired = append(d.at, time.Since(d.begun)), append(d.fired, f)
}

// within waits for d and returns when handlers ran.
func (d *diary) within(wait time.Duration) []time.Duration {
	time.Sleep(wait)
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.at)
}

// handled by err, which may be nil.
func (d *diary) handler(result func(timer.Fired) error) map[timer.Kind]timer.Handler {
	return map[timer.Kind]timer.Handler{timer.Park: func(_ context.Context, f timer.Fired) error {
		d.note(f)
		return result(f)
	}}
}

func succeed(timer.Fired) error { return nil }

var (
	keyA = timer.Key{Kind: timer.Park, ID: [16]byte{1}}
	keyB = timer.Key{Kind: timer.Park, ID: [16]byte{2}}
)

func idle(k timer.Key, gen int64, d time.Duration) timer.Entry {
	return timer.Entry{Key: k, Gen: gen, Idle: d}
}

func wantTimes(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("handlers ran at %v, want %v", got, want)
	}
}

func TestFiresWhenDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		r.arm(idle(keyA, 1, time.Hour))
		synctest.Wait()
		r.arm(idle(keyB, 1, 30*time.Second)) // earlier than what the engine sleeps for
		wantTimes(t, d.within(20*time.Second))
		r.Touch(keyB)
		wantTimes(t, d.within(2*time.Hour), 50*time.Second, time.Hour)
		if got := d.fired[0]; got.Key != keyB || got.Gen != 1 || got.Due.Sub(got.Last) != 30*time.Second || got.Delivery != 1 {
			t.Errorf("fired %+v", got)
		}
	})
}

func TestArmWithStoredTimesWakesTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		r.arm(idle(keyA, 1, time.Hour))
		d.within(time.Minute)
		r.arm(timer.Entry{Key: keyB, Gen: 1, Idle: 2 * time.Hour, Last: drive.TimeOf(time.Now()).Add(-2 * time.Hour)})
		wantTimes(t, d.within(time.Second), time.Minute)
	})
}

// TestFailedArmIsRetried checks that the engine retries an Arm that failed in a short outage of the
// queue: its caller does not.
func TestFailedArmIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		fail := func(n int64, e timer.Entry) {
			r.queue.armErrs.Store(n)
			if err := r.Arm(t.Context(), e); drive.KindOf(err) != drive.Unavailable {
				t.Fatalf("armed: %v", err)
			}
		}
		fail(3, idle(keyA, 1, time.Minute)) // the engine tries at once, after a second, and after another one
		wantTimes(t, d.within(2*time.Hour), time.Minute)
		fail(10, idle(keyB, 1, time.Minute))
		if err := r.Cancel(t.Context(), keyB, 1); err != nil {
			t.Fatal(err)
		}
		r.queue.armErrs.Store(0)
		if at := d.within(2 * time.Hour); len(at) != 1 {
			t.Errorf("what was cancelled was armed: handlers ran at %v", at)
		}
		fail(10, idle(keyB, 2, time.Minute))
		r.queue.armErrs.Store(0)
		r.arm(idle(keyB, 3, 2*time.Minute)) // the newer one stands
		d.within(2 * time.Hour)
		if len(d.fired) != 2 || d.fired[1].Gen != 3 {
			t.Errorf("fired %+v", d.fired)
		}
	})
}

func TestIdleEngineDoesNotPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		d.within(24 * time.Hour)
		if n := r.queue.leases.Load(); n != 1 {
			t.Errorf("an engine with nothing to do asked the queue %d times in a day", n)
		}
		r.arm(idle(keyA, 1, time.Hour))
		r.arm(idle(keyB, 1, 2*time.Hour)) // later than what it sleeps for: no reason to wake
		d.within(59 * time.Minute)
		if n := r.queue.leases.Load(); n > 3 {
			t.Errorf("it asked %d times before anything was due", n)
		}
		wantTimes(t, d.within(3*time.Hour), 25*time.Hour, 26*time.Hour)
	})
}

func TestManyTouchesCostFewMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		r.arm(idle(keyA, 1, 30*time.Second))
		for range 6000 { // ten minutes, ten touches a second
			time.Sleep(100 * time.Millisecond)
			r.Touch(keyA)
		}
		wantTimes(t, d.within(time.Minute), 10*time.Minute+30*time.Second)
		if n := r.Counters(timer.Park).Early.Load(); n > 21 {
			t.Errorf("6000 touches in 20 idle times moved the entry %d times", n)
		}
	})
}

func TestSlowKindDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		handlers := d.handler(succeed)
		var running, most atomic.Int64
		handlers[timer.Abandon] = func(context.Context, timer.Fired) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Minute)
			return nil
		}
		r := start(t, timer.Options{Handlers: handlers, Concurrency: map[timer.Kind]int{timer.Abandon: 3}})
		for i := range 50 {
			r.arm(idle(timer.Key{Kind: timer.Abandon, ID: [16]byte{byte(i)}}, 1, time.Second))
		}
		r.arm(idle(keyA, 1, 2*time.Second))
		wantTimes(t, d.within(time.Hour), 2*time.Second)
		if most.Load() != 3 {
			t.Errorf("%d slow handlers ran at a time, 3 are allowed", most.Load())
		}
		if n := r.Counters(timer.Abandon).Fired.Load(); n != 50 {
			t.Errorf("%d of 50 slow timers were delivered", n)
		}
	})
}

func TestFailuresBackOffAndDie(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, cause := newDiary(), errors.New("it is broken")
		var dead []string
		r := start(t, timer.Options{
			Handlers: d.handler(func(timer.Fired) error { return cause }),
			OnDead: func(_ context.Context, f timer.Fired, err error) error {
				dead = append(dead, fmt.Sprintf("%s after %d: %v", f.Key, f.Attempt, err))
				if len(dead) == 1 {
					return errors.New("nobody takes it yet")
				}
				return nil
			},
		})
		r.arm(idle(keyA, 1, 0))
		got := d.within(3 * time.Hour)
		s5, m1, m10, h1 := 5*time.Second, 5*time.Second+time.Minute, 5*time.Second+11*time.Minute, 5*time.Second+71*time.Minute
		wantTimes(t, got[:5], 0, s5, m1, m10, h1)
		if len(got) != 6 || len(dead) != 2 || !strings.HasSuffix(dead[1], "after 4: it is broken") {
			t.Errorf("ran at %v, dead: %q", got, dead)
		}
		if _, err := r.Show(t.Context(), keyA); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("a timer that was buried is still there: %v", err)
		}
		if c := r.Counters(timer.Park); c.Retries.Load() != 4 || c.Dead.Load() != 1 {
			t.Errorf("counted %d retries, %d dead", c.Retries.Load(), c.Dead.Load())
		}
	})
}

func TestUnavailableConsumesNoAttempt(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{drive.Fail(drive.Unavailable), fmt.Errorf("park: %w", drive.Fail(drive.Stopping)), context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			d := newDiary()
			r := start(t, timer.Options{Handlers: d.handler(func(timer.Fired) error {
				if time.Since(d.begun) < time.Hour {
					return cause
				}
				return nil
			})})
			r.arm(idle(keyA, 1, 0))
			d.within(2 * time.Hour)
			last := d.fired[len(d.fired)-1]
			if last.Attempt != 0 || last.Delivery != len(d.fired) {
				t.Errorf("after an outage of an hour: %+v", last)
			}
			for i := range d.at[1:] {
				if pause := d.at[i+1] - d.at[i]; pause < 5*time.Second || pause > 8*time.Second {
					t.Fatalf("tried again after %v", pause)
				}
			}
			if c := r.Counters(timer.Park); c.Retries.Load() != 0 || c.Waits.Load() != int64(len(d.at)-1) {
				t.Errorf("counted %d retries, %d waits", c.Retries.Load(), c.Waits.Load())
			}
		})
	}
}

func TestPanicIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(func(f timer.Fired) error {
			if f.Attempt == 0 {
				panic("at the first attempt")
			}
			return nil
		})})
		r.arm(idle(keyA, 1, 0))
		wantTimes(t, d.within(time.Hour), 0, 5*time.Second)
		if c := r.Counters(timer.Park); c.Panics.Load() != 1 || c.Running.Load() != 0 {
			t.Errorf("counted %d panics, %d running", c.Panics.Load(), c.Running.Load())
		}
	})
}

func TestLaterRedeliversTheTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(func(timer.Fired) error {
			if len(d.fired) == 1 {
				return fmt.Errorf("a part is on its way: %w", timer.Later(10*time.Second))
			}
			return nil
		})})
		r.arm(idle(keyA, 1, 30*time.Second))
		wantTimes(t, d.within(time.Hour), 30*time.Second, 40*time.Second)
		if d.fired[1].Attempt != 0 {
			t.Errorf("looking again counted as a failure: %+v", d.fired[1])
		}
	})
}

func TestOverrunCancelsTheHandlerAndCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{LeaseTime: time.Minute, Handlers: map[timer.Kind]timer.Handler{
			timer.Park: func(ctx context.Context, f timer.Fired) error {
				d.note(f)
				if f.Attempt > 0 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			},
		}})
		r.arm(idle(keyA, 1, 0))
		wantTimes(t, d.within(time.Hour), 0, 54*time.Second+5*time.Second)
		if n := r.Counters(timer.Park).Retries.Load(); n != 1 {
			t.Errorf("a handler that outlived its lease counted %d attempts", n)
		}
		if _, err := r.Show(t.Context(), keyA); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("show: %v", err)
		}
	})
}

func TestStopWaitsThenCancels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var finished, cancelled atomic.Bool
		r := start(t, timer.Options{Grace: 10 * time.Second, Handlers: map[timer.Kind]timer.Handler{
			timer.Park: func(ctx context.Context, _ timer.Fired) error {
				time.Sleep(5 * time.Second)
				finished.Store(ctx.Err() == nil)
				return ctx.Err()
			},
			timer.Abandon: func(ctx context.Context, _ timer.Fired) error {
				<-ctx.Done()
				cancelled.Store(true)
				return errors.New("stopped in the middle")
			},
		}})
		slow := timer.Key{Kind: timer.Abandon}
		r.arm(idle(keyA, 1, 0), idle(slow, 1, 0))
		synctest.Wait()
		begun := time.Now()
		r.stop()
		if took := time.Since(begun); took != 10*time.Second || !finished.Load() || !cancelled.Load() {
			t.Errorf("stop took %v; finished %v, cancelled %v", took, finished.Load(), cancelled.Load())
		}
		if st, err := r.Show(t.Context(), slow); err != nil || !st.Leased || st.Attempt != 0 {
			t.Errorf("the timer of a cancelled handler: %+v, %v", st, err)
		}
		if _, err := r.Show(t.Context(), keyA); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("the timer of a handler that finished during the stop: %v", err)
		}
	})
}

func TestEngineSurvivesQueueFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{LeaseTime: time.Minute, Handlers: d.handler(succeed)})
		synctest.Wait()
		r.queue.leaseErrs.Store(3)
		r.queue.lostAcks.Store(1)
		r.arm(idle(keyA, 1, 0))
		got := d.within(time.Hour)
		if len(got) != 2 || got[0] > 6*time.Second || got[1] != got[0]+time.Minute {
			t.Errorf("handlers ran at %v", got)
		}
		if a, b := d.fired[0], d.fired[1]; a.Token != b.Token || a.Last != b.Last || b.Delivery != 2 {
			t.Errorf("delivered again otherwise: %+v, %+v", a, b)
		}
		r.arm(idle(keyB, 1, 0))
		if got = d.within(time.Hour); len(got) != 3 {
			t.Errorf("after the faults: %v", got)
		}
	})
}

// TestOutageIsLoggedAtItsBeginningAndEnd checks that an outage is two lines although the queue is
// called every second.
func TestOutageIsLoggedAtItsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed), Log: slog.New(slog.NewTextHandler(&out, nil))})
		synctest.Wait()
		r.queue.leaseErrs.Store(math.MaxInt64)
		r.arm(idle(keyA, 1, 0))
		d.within(10*time.Minute - time.Second)
		r.queue.leaseErrs.Store(0)
		if got := d.within(time.Minute); len(got) != 1 {
			t.Errorf("handlers ran at %v", got)
		}
		r.stop()
		lines, ends := strings.Count(out.String(), "timer queue does not answer"), strings.Count(out.String(), "over: timer queue does not answer")
		if lines != 2 || ends != 1 {
			t.Errorf("%d lines, %d of them of the end, in\n%s", lines, ends, out.String())
		}
	})
}

func TestLossIsRecovered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		var r *rig
		calls := 0
		r = start(t, timer.Options{Handlers: d.handler(succeed), OnLoss: func(ctx context.Context) error {
			if calls++; calls == 1 {
				return drive.Fail(drive.Unavailable)
			}
			return r.Arm(ctx, idle(keyA, 1, 30*time.Second))
		}})
		r.arm(idle(keyA, 1, 30*time.Second))
		d.within(10 * time.Second)
		if calls != 0 {
			t.Fatalf("the first epoch was taken for a loss")
		}
		r.queue.Forget()
		r.arm(idle(keyB, 1, 0))
		got := d.within(time.Hour)
		if calls != 2 || r.Losses() != 1 || len(got) != 2 || got[1] < 45*time.Second || got[1] > 48*time.Second {
			t.Errorf("lost was called %d times for %d losses; handlers ran at %v", calls, r.Losses(), got)
		}
	})
}

func TestTraceInTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed), Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		r.arm(idle(keyA, 7, time.Second))
		d.within(time.Minute)
		r.stop()
		for _, line := range []string{`msg="timer armed"`, `msg="timer fired"`, `msg="timer applied"`} {
			if !strings.Contains(out.String(), line+" timer="+keyA.String()+" gen=7") {
				t.Errorf("%s is missing in\n%s", line, out.String())
			}
		}
	})
}

func TestCancelAndPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		r.arm(idle(keyA, 1, time.Second), idle(keyB, 1, time.Hour))
		if err := r.Cancel(t.Context(), keyA, 1); err != nil {
			t.Fatal(err)
		}
		got, err := r.Pending(t.Context())
		if want := (timer.DueCounts{Hour: 1}); err != nil || got[timer.Park] != want {
			t.Errorf("pending %+v, %v", got, err)
		}
		wantTimes(t, d.within(2*time.Hour), time.Hour)
	})
}

func TestRunsOnce(t *testing.T) {
	t.Parallel()
	e := timer.New(timer.Options{Queue: memory.New(memory.Options{})})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(ctx); err == nil {
		t.Error("an engine ran twice")
	}
}

func TestTouchDoesNotAllocate(t *testing.T) {
	e := timer.New(timer.Options{Queue: memory.New(memory.Options{})})
	if err := e.Arm(t.Context(), idle(keyA, 1, time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { e.Touch(keyA) }); n != 0 {
		t.Errorf("a touch makes %v allocations", n)
	}
}
