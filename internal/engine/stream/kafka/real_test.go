package kafka_test

import (
	"cmp"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/streamtest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

// real makes a stream on the Kafka of the test environment, in a namespace of the test's own.
func real(t *testing.T, levels []stream.Level) *rig {
	t.Helper()
	return onBroker(t, kafka.Options{Levels: levels})
}

// onBroker completes opt. A member keeps its place however late its heartbeats are on a busy
// machine, or records come twice.
func onBroker(t *testing.T, opt kafka.Options) *rig {
	t.Helper()
	opt.Brokers = strings.Split(servicetest.URL(t, servicetest.Kafka), ",")
	opt.Namespace, opt.Partitions, opt.RelayEvery = servicetest.Unique(), 3, 20*time.Millisecond
	opt.SessionTimeout = cmp.Or(opt.SessionTimeout, 30*time.Second)
	r := newRig(t, opt, sqldbtest.Open(t))
	r.Slack, r.Long = 1500*time.Millisecond, 4*time.Second
	t.Cleanup(func() { r.deleteTopics(t) })
	eventually(t, "the coordinator of groups", func() error { // a new broker makes its topic of offsets at first use
		s, err := r.stream.Open(t.Context(), stream.Subscription{Consumer: "first", Topic: stream.TopicUploads})
		if err != nil {
			return err
		}
		return s.Close()
	})
	return r
}

// realLevels are over by themselves, for tests in which nothing is asked of the time before.
var realLevels = []stream.Level{{Name: "a", Delay: 3 * time.Second}, {Name: "b", Delay: 4 * time.Second}}

func TestConformanceOnKafka(t *testing.T) {
	t.Parallel()
	servicetest.URL(t, servicetest.Kafka)
	for name, test := range streamtest.Tests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &driven{}
			r := onBroker(t, kafka.Options{Levels: hours, Now: c.Now, ConvertTimestamp: c.at})
			c.moved = r.stream.WakeLevels
			r.Clock, r.Slack, r.Long = c, 20*time.Minute, 24*time.Hour
			test(t, r.Fixture)
		})
	}
}

// hours are levels that are not over by themselves while a test runs, however busy the machine is.
var hours = []stream.Level{{Name: "a", Delay: time.Hour}, {Name: "b", Delay: 2 * time.Hour}}

// driven is a clock that shows the broker's time plus all movements.
type driven struct {
	moved func() // is called after each move

	mu    sync.Mutex
	moves []move
}

// move is one movement, and the broker's time at which it was made.
type move struct {
	at time.Time
	by time.Duration
}

func (c *driven) Now() time.Time { return c.at(time.Now()) }

// at returns what the clock showed at the broker's time stamp, which is truncated to milliseconds.
func (c *driven) at(stamp time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := stamp
	for _, m := range c.moves {
		if !m.at.After(stamp) {
			shown = shown.Add(m.by)
		}
	}
	return shown
}

// Advance implements streamtest.Clock. It has a millisecond of the broker's time to itself, so that
// what was stamped before and after it can be told apart; heartbeats and rebalances take the
// broker's time and not this clock's.
func (c *driven) Advance(d time.Duration) {
	<-time.After(2 * time.Millisecond)
	c.mu.Lock()
	c.moves = append(c.moves, move{time.Now(), d})
	c.mu.Unlock()
	<-time.After(2 * time.Millisecond)
	c.moved()
}

// TestLagIsZeroBeforeTheFirstMember: a new installation has topics but no groups.
func TestLagIsZeroBeforeTheFirstMember(t *testing.T) {
	t.Parallel()
	r := &rig{opt: kafka.Options{
		Brokers: strings.Split(servicetest.URL(t, servicetest.Kafka), ","), Namespace: servicetest.Unique(), Partitions: 1,
		Consumers: []stream.Subscription{{Consumer: "first", Topic: stream.TopicUploads}}, Log: silent,
	}}
	r.stream = r.open(t)
	if err := r.stream.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.deleteTopics(t) })
	process.Eventually(t, time.Minute, "the lag of nobody", func() error { // a broker that has just started has no coordinator yet
		lags, err := r.stream.Lags(t.Context())
		if err == nil && (len(lags) != 1 || lags[0].Offsets != 0) {
			t.Errorf("%+v", lags)
		}
		return err
	})
}
