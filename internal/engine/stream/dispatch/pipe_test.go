package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/internal/testkit/depth"
)

// pipe is the whole way of a timer in virtual time: queue, engine, topics of a broker in memory,
// workers, handlers.
type pipe struct {
	engine  *timer.Engine
	dead    *outbox.Outbox
	answer  func(ctx context.Context, f timer.Fired) error
	workers []*stream.Runner

	mu      sync.Mutex
	applied map[timer.Key]time.Duration // how long after begin its handler succeeded
	calls   int
	begin   time.Time
}

func pipeline(t *testing.T, test func(t *testing.T, p *pipe)) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "a connection to a server does not live in virtual time")
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9000), kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		silent := slog.New(slog.DiscardHandler)
		o := outbox.New(sqldbtest.Open(t), outbox.Options{Source: "smartdrive/test", Log: silent, Relayed: true})
		s, err := kafka.New(kafka.Options{
			Brokers: []string{"localhost:9000"}, Dial: network.DialContext, Partitions: 2, Source: "smartdrive/test",
			Backlog: o, DeadLetters: o, Consumers: dispatch.Subscriptions(), RelayEvery: time.Minute, Log: silent,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := &pipe{dead: o, applied: map[timer.Key]time.Duration{}, answer: func(context.Context, timer.Fired) error { return nil }}
		var d *dispatch.Dispatch
		publish := func(ctx context.Context, f timer.Fired) error { return d.Publish(ctx, f) }
		p.engine = timer.New(timer.Options{
			Queue:       memory.New(memory.Options{}),
			Handlers:    map[timer.Kind]timer.Handler{timer.Park: publish, timer.Abandon: publish},
			Concurrency: map[timer.Kind]int{timer.Park: 256, timer.Abandon: 256},
		})
		handlers := map[timer.Kind]timer.Handler{timer.Park: p.handle, timer.Abandon: p.handle}
		d = dispatch.New(dispatch.Options{Sender: s, Timers: p.engine, Handlers: handlers, Parallel: 8})
		loops := []func(context.Context) error{p.engine.Run, s.RunLevels, s.RunDead, s.RunRelay}
		for range 2 {
			for _, c := range d.Consumers() {
				w := stream.NewRunner(s, c, stream.Options{Log: silent})
				p.workers, loops = append(p.workers, w), append(loops, w.Run)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, loop := range loops {
			all.Go(func() {
				if err := loop(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		t.Cleanup(func() { cancel(); all.Wait() })
		<-time.After(5 * time.Second) // until the groups have dealt out their partitions
		p.begin = time.Now()
		test(t, p)
	})
}

func (p *pipe) handle(ctx context.Context, f timer.Fired) error {
	p.mu.Lock()
	p.calls++
	p.mu.Unlock()
	err := p.answer(ctx, f)
	if err == nil {
		p.mu.Lock()
		p.applied[f.Key] = time.Since(p.begin)
		p.mu.Unlock()
	}
	return err
}

func (p *pipe) arm(t *testing.T, kind timer.Kind, account drive.AccountID, n int) []timer.Key {
	t.Helper()
	keys := make([]timer.Key, n)
	entries := make([]timer.Entry, n)
	for i := range keys {
		keys[i] = timer.Key{Kind: kind, ID: drive.NewID[[16]byte]()}
		entries[i] = timer.Entry{Key: keys[i], Gen: 1, Account: account}
	}
	if err := p.engine.Arm(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	return keys
}

// wait waits until all keys are applied and returns when the last one was.
func (p *pipe) wait(t *testing.T, limit time.Duration, keys ...timer.Key) (last time.Duration) {
	t.Helper()
	for until := time.Now().Add(limit); ; <-time.After(50 * time.Millisecond) {
		missing := 0
		p.mu.Lock()
		for _, k := range keys {
			at, ok := p.applied[k]
			if last = max(last, at); !ok {
				missing++
			}
		}
		p.mu.Unlock()
		if missing == 0 {
			return last
		}
		if time.Now().After(until) {
			t.Fatalf("%d of %d timers are not applied after %v", missing, len(keys), limit)
		}
	}
}

func TestSlowReclaimsDelayOnlyTheirAccount(t *testing.T) {
	pipeline(t, func(t *testing.T, p *pipe) {
		greedy := drive.NewID[drive.AccountID]()
		running, most := 0, 0
		p.answer = func(_ context.Context, f timer.Fired) error {
			if f.Account != greedy || f.Key.Kind != timer.Abandon {
				return nil
			}
			p.mu.Lock()
			running++
			most = max(most, running)
			p.mu.Unlock()
			<-time.After(10 * time.Second)
			p.mu.Lock()
			running--
			p.mu.Unlock()
			return nil
		}
		reclaims := depth.Pick(100, 300, 1000)
		slow := p.arm(t, timer.Abandon, greedy, reclaims)
		var others []timer.Key
		<-time.After(time.Second) // all of them are on the topic before the others
		others = append(others, p.arm(t, timer.Park, greedy, 50)...)
		for range 20 {
			account := drive.NewID[drive.AccountID]()
			others = append(others, p.arm(t, timer.Park, account, 1)...)
			others = append(others, p.arm(t, timer.Abandon, account, 1)...)
		}
		if last := p.wait(t, time.Minute, others...); last > 2*time.Second {
			t.Errorf("the others had to wait until %v", last)
		}
		last := p.wait(t, 3*time.Hour, slow...)
		if most > 2 || last < time.Duration(reclaims/2)*10*time.Second {
			t.Errorf("%d reclaims of one account at a time, the last at %v", most, last)
		}
		if p.calls != len(slow)+len(others) {
			t.Errorf("%d calls for %d timers", p.calls, len(slow)+len(others))
		}
	})
}

func TestOutageUsesNoAttempt(t *testing.T) {
	pipeline(t, func(t *testing.T, p *pipe) {
		const outage = 10 * time.Minute
		p.answer = func(context.Context, timer.Fired) error {
			if time.Since(p.begin) < outage {
				return fmt.Errorf("commit: %w", drive.Fail(drive.Unavailable, "reason", "the database is away"))
			}
			return nil
		}
		var keys []timer.Key
		for i := range 100 {
			keys = append(keys, p.arm(t, []timer.Kind{timer.Park, timer.Abandon}[i%2], drive.NewID[drive.AccountID](), 1)...)
		}
		if last := p.wait(t, outage+time.Minute, keys...); last < outage || last > outage+15*time.Second {
			t.Errorf("the last one was applied at %v", last)
		}
		for _, w := range p.workers {
			if c := w.Counters(); c.Retried.Load() != 0 || c.Dead.Load() != 0 {
				t.Errorf("%d retried, %d dead", c.Retried.Load(), c.Dead.Load())
			}
		}
	})
}

func TestFailedTimerBecomesOneReplayableDeadLetter(t *testing.T) {
	pipeline(t, func(t *testing.T, p *pipe) {
		broken := true
		p.answer = func(context.Context, timer.Fired) error {
			if broken {
				return errors.New("no")
			}
			return nil
		}
		key := p.arm(t, timer.Abandon, drive.NewID[drive.AccountID](), 1)
		<-time.After(72 * time.Minute)
		list, err := p.dead.List(t.Context(), 10, 0)
		if err != nil || len(list) != 1 || list[0].Consumer != dispatch.ConsumerName || p.calls != 5 {
			t.Fatalf("dead letters %+v after %d calls, error %v", list, p.calls, err)
		}
		broken = false
		if err := p.dead.Replay(t.Context(), list[0].ID); err != nil {
			t.Fatal(err)
		}
		p.wait(t, 2*time.Second, key...)
	})
}

func TestLaterArmsTheTimerAgain(t *testing.T) {
	pipeline(t, func(t *testing.T, p *pipe) {
		p.answer = func(context.Context, timer.Fired) error {
			if left := 30*time.Second - time.Since(p.begin); left > 0 {
				return timer.Later(left)
			}
			return nil
		}
		key := p.arm(t, timer.Park, drive.NewID[drive.AccountID](), 1)
		if last := p.wait(t, time.Minute, key...); last < 30*time.Second || last > 31*time.Second {
			t.Errorf("applied at %v", last)
		}
		if p.calls > 3 {
			t.Errorf("%d calls", p.calls)
		}
	})
}
