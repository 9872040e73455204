package kafka_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/stream/streamtest"
)

// passing is a clock that runs by itself, like a broker's.
type passing struct{}

func (passing) Now() time.Time          { return time.Now() }
func (passing) Advance(d time.Duration) { <-time.After(d) }

// rig is a stream on a broker, with its loops running.
type rig struct {
	*streamtest.Fixture
	stream  *kafka.Stream
	outbox  *outbox.Outbox
	cluster *kfake.Cluster // nil for a real one
	opt     kafka.Options

	stopRelay, stopLevels func() // of the first stream
}

var silent = slog.New(slog.DiscardHandler)

// newRig makes a stream with opt and starts its loops.
func newRig(t *testing.T, opt kafka.Options, db *sqldb.DB) *rig {
	t.Helper()
	o := outbox.New(db, outbox.Options{Source: "smartdrive/test", Log: silent, Relayed: true})
	opt.Backlog, opt.DeadLetters, opt.Log, opt.Source = o, o, silent, "smartdrive/test"
	r := &rig{outbox: o, opt: opt}
	r.stream = r.start(t)
	r.Fixture = &streamtest.Fixture{
		DB: db, Publisher: o, Source: r.stream, Dead: o, Clock: passing{}, Levels: opt.Levels, Shared: true,
		Slack: 1500 * time.Millisecond, Long: 20 * time.Second, WaitIdle: r.quiet,
	}
	return r
}

// start makes one more process: a stream of its own on the same broker and database.
func (r *rig) start(t *testing.T) *kafka.Stream {
	t.Helper()
	s := r.open(t)
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("check: %v", err)
	}
	r.stopRelay = background(t, s.RunRelay)
	r.stopLevels = background(t, s.RunLevels)
	background(t, s.RunDead)
	return s
}

func (r *rig) open(t *testing.T) *kafka.Stream {
	t.Helper()
	s, err := kafka.New(r.opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// background runs loops until the test ends, or stop is called.
func background(t *testing.T, loops ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, loop := range loops {
		all.Go(func() {
			if err := loop(ctx); err != nil {
				t.Errorf("a loop ended: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func (r *rig) quiet(t testing.TB) {
	t.Helper()
	eventually(t, "quiet", func() error { return r.stream.Quiet(t.Context()) })
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute) // a broker deals out its groups slowly where other tests run
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// testLevels are as long as a test has patience, in virtual time too: every second costs
// heartbeats.
var testLevels = []stream.Level{{Name: "5s", Delay: 5 * time.Second}, {Name: "6s", Delay: 6 * time.Second}, {Name: "7s", Delay: 7 * time.Second}}

// fake runs a test against a broker in memory, in virtual time. Time stands still while a goroutine
// waits for a mutex, and the client holds one while it joins its group: who commits at that moment
// stops the clock for good. Tests whose groups change under load run in real time, see hurried.
func fake(t *testing.T, test func(t *testing.T, r *rig), brokers ...int) {
	t.Helper()
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "a connection to a server does not live in virtual time")
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		n := 1
		if len(brokers) > 0 {
			n = brokers[0]
		}
		ports := make([]int, n)
		for i := range ports {
			ports[i] = 9000 + i
		}
		cluster, err := kfake.NewCluster(kfake.NumBrokers(n), kfake.Ports(ports...), kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cluster.Close)
		r := newRig(t, kafka.Options{
			Brokers: []string{"localhost:" + strconv.Itoa(ports[0])}, Dial: network.DialContext, Partitions: 3,
			Levels: testLevels, RelayEvery: time.Second,
		}, sqldbtest.Open(t))
		r.cluster = cluster
		test(t, r)
	})
}

// hurried makes a stream on a broker in memory, in real time, whose sessions time out after
// session.
func hurried(t *testing.T, brokers int, session time.Duration) *rig {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := newRig(t, kafka.Options{
		Brokers: cluster.ListenAddrs(), Partitions: 3, Levels: testLevels, RelayEvery: 20 * time.Millisecond, SessionTimeout: session,
	}, sqldbtest.Open(t))
	r.cluster = cluster
	return r
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, test := range streamtest.Tests() {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, r *rig) { test(t, r.Fixture) })
		})
	}
}

// deleteTopics runs before the loops end, so that the broker is not left with hundreds of
// partitions.
func (r *rig) deleteTopics(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	if err := r.stream.DeleteTopics(ctx); err != nil {
		t.Logf("delete the topics: %v", err)
	}
}
