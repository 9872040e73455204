package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/streamtest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// ledger counts how often each subject was handled.
type ledger struct {
	mu     sync.Mutex
	seen   map[string]int
	answer func(stream.Record) error
}

func (l *ledger) handle(_ context.Context, r stream.Record) error {
	if l.answer != nil {
		if err := l.answer(r); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]int{}
	}
	l.seen[r.Subject]++
	return nil
}

// want waits until n subjects were handled, and returns how many were handled more than once.
func (l *ledger) want(t *testing.T, n int) (repeated int) {
	t.Helper()
	eventually(t, "all handled", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.seen) != n {
			return fmt.Errorf("%d of %d", len(l.seen), n)
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.seen {
		if times > 1 {
			repeated++
		}
	}
	return repeated
}

// run starts one more worker of the consumer "w"; stop ends it in order.
func (r *rig) run(t *testing.T, l *ledger) (stop func()) {
	w := stream.NewRunner(r.stream, stream.Consumer{Name: "w", Topic: stream.TopicUploads, Handle: l.handle, Parallel: 4},
		stream.Options{Levels: r.opt.Levels, Log: silent})
	return background(t, w.Run)
}

// publish publishes n records of different accounts, in transactions of 50.
func (r *rig) publish(t *testing.T, name string, n int) {
	t.Helper()
	for i := 0; i < n; i += 50 {
		var subjects []string
		for j := range min(50, n-i) {
			subjects = append(subjects, fmt.Sprintf("%s-%d", name, i+j))
		}
		r.Publish(t, drive.NewID[drive.AccountID](), subjects...)
	}
}

func TestRebalancesLoseNoRecords(t *testing.T) {
	t.Parallel()
	comeAndGo(t, hurried(t, 3, 2*time.Second))
}

func TestRebalancesLoseNoRecordsOnKafka(t *testing.T) {
	t.Parallel()
	comeAndGo(t, onBroker(t, kafka.Options{Levels: realLevels, SessionTimeout: 10 * time.Second}))
}

func comeAndGo(t *testing.T, r *rig) {
	var l ledger
	stopFirst := r.run(t, &l)
	r.publish(t, "alone", 1000)
	stopSecond := r.run(t, &l)
	for i := range 10 { // a rebalance is under way
		r.publish(t, fmt.Sprintf("joining-%d", i), 100)
		r.Clock.Advance(200 * time.Millisecond)
	}
	r.publish(t, "both", 1000)
	stopFirst()
	r.publish(t, "left", 1000)
	// The second dies: its member stays in the group until its session has timed out.
	lost := r.start(t)
	dying := *r
	dying.stream = lost
	dying.run(t, &l)
	r.publish(t, "third", 500)
	_ = lost.Close()
	stopSecond()
	r.run(t, &l)
	r.publish(t, "last", 500)
	t.Logf("%d of 5000 handled more than once", l.want(t, 5000))
}

func TestFaultsOfTheBrokerLoseNothing(t *testing.T) {
	t.Parallel()
	r := hurried(t, 3, 20*time.Second) // on a busy machine, a member that is late with its heartbeat would lose its place, and records come twice
	var l ledger
	r.run(t, &l)
	r.publish(t, "before", 100)
	l.want(t, 100)
	for i, err := range []*kerr.Error{kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.NotLeaderForPartition} {
		fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Count: 3})
		r.publish(t, err.Message, 200)
		l.want(t, 300+200*i)
		if fault.Hits() == 0 {
			t.Errorf("%s was never met", err.Message)
		}
		fault.Remove()
	}
	if n := l.want(t, 700); n != 0 {
		t.Errorf("%d came twice: an idempotent producer stores what it repeats once", n)
	}
	for i := range 5 {
		r.cluster.ShufflePartitionLeaders()
		r.cluster.RehashCoordinators()
		r.publish(t, fmt.Sprintf("moved-%d", i), 100)
		r.Clock.Advance(200 * time.Millisecond)
	}
	l.want(t, 1200)
	r.publish(t, "after", 100)
	t.Logf("%d of 1300 handled more than once", l.want(t, 1300))
}

// forgetful is a backlog that loses its marks, as if the relay died between acknowledgement and
// mark.
type forgetful struct {
	stream.Backlog
	mu  sync.Mutex
	die int
}

func (f *forgetful) MarkSent(ctx context.Context, sent []stream.Unsent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.die > 0 {
		f.die--
		return drive.Wrap(errors.New("died"), drive.Unavailable)
	}
	return f.Backlog.MarkSent(ctx, sent)
}

func TestRelaySendsAgainAfterCrash(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		var l ledger
		backlog := &forgetful{Backlog: r.outbox, die: 2}
		r.opt.Backlog, r.opt.Namespace = backlog, "again"
		r.stream = r.open(t)
		if err := r.stream.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The other stream's relay must not have it first.
		ids := map[stream.RecordID]int{}
		l.answer = func(rec stream.Record) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			ids[rec.ID]++
			return nil
		}
		r.run(t, &l)
		r.stopRelay()
		r.publish(t, "x", 20)
		background(t, r.stream.RunRelay)
		l.want(t, 20)
		r.Clock.Advance(10 * time.Second)
		for id, n := range ids {
			if n != 3 {
				t.Errorf("%s came %d times", id, n)
			}
		}
		if got := r.stream.Counters().Resent.Load(); got != 40 {
			t.Errorf("%d sent again", got)
		}
	})
}

func TestLevelForwardsAgainAfterCrash(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		failed, calls := false, 0
		var l ledger
		l.answer = func(stream.Record) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if calls++; !failed {
				failed = true
				return errors.New("no")
			}
			return nil
		}
		r.run(t, &l)
		fault := r.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "smartdrive.delay", Err: kerr.CoordinatorNotAvailable, Count: -1,
		})
		r.publish(t, "x", 1)
		l.want(t, 1)
		if fault.Hits() == 0 || r.stream.Counters().Forwarded.Load() != 1 {
			t.Fatalf("%d commits failed, %d forwarded", fault.Hits(), r.stream.Counters().Forwarded.Load())
		}
		r.stopLevels() // forwarded, not committed
		fault.Remove()
		background(t, r.stream.RunLevels)
		r.quiet(t)
		eventually(t, "forwarded again", func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if calls < 3 {
				return fmt.Errorf("%d calls", calls)
			}
			return nil
		})
		r.Clock.Advance(time.Minute)
		if calls != 3 || r.stream.Counters().Forwarded.Load() != 2 {
			t.Errorf("%d calls, %d forwarded", calls, r.stream.Counters().Forwarded.Load())
		}
	})
}

// raw returns a client without any configuration of the stream.
func (r *rig) raw(t *testing.T, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts := append([]kgo.Opt{kgo.SeedBrokers(r.opt.Brokers...)}, more...)
	if r.opt.Dial != nil {
		opts = append(opts, kgo.Dialer(r.opt.Dial))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// TestLevelDelayStartsAtBroker: delays use the broker's clock, so a producer with a wrong
// clock can neither shorten a delay nor overtake others.
func TestLevelDelayStartsAtBroker(t *testing.T) {
	t.Parallel()
	if !servicetest.RealKafka() {
		servicetest.Missing(t, servicetest.Kafka, "the broker in memory keeps the producer's time")
	}
	r := real(t, realLevels)
	var mu sync.Mutex
	var order []string
	var l ledger
	l.answer = func(rec stream.Record) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, rec.Subject)
		return nil
	}
	r.run(t, &l)
	cl := r.raw(t)
	begin := time.Now()
	for i, skew := range []time.Duration{time.Hour, -time.Hour, 0} {
		rec := streamtest.Records(t, streamtest.Account, fmt.Sprint(i))[0]
		rec.Source, rec.Time = "smartdrive/test", 1
		event, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m := &kgo.Record{
			Topic: r.opt.Namespace + ".delay.a", Key: []byte(streamtest.Account.String()), Value: event, Timestamp: time.Now().Add(skew),
			Headers: []kgo.RecordHeader{{Key: "sd-consumer", Value: []byte("w")}, {Key: "sd-topic", Value: []byte(stream.TopicUploads)}},
		}
		if err := cl.ProduceSync(t.Context(), m).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	l.want(t, 3)
	if early := realLevels[0].Delay - time.Since(begin); early > 0 { // by an hour late they would not have been waited for
		t.Errorf("they came %v early", early)
	}
	if got := strings.Join(order, " "); got != "0 1 2" {
		t.Errorf("in the order %s", got)
	}
}

func TestRecordWithoutConsumerBecomesDeadLetter(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		for _, consumer := range []string{"", "no such/consumer", "gone"} {
			m := &kgo.Record{
				Topic: "smartdrive.delay.5s", Value: []byte("{"),
				Headers: []kgo.RecordHeader{{Key: "sd-consumer", Value: []byte(consumer)}, {Key: "sd-topic", Value: []byte(stream.TopicPark)}},
			}
			if err := r.raw(t).ProduceSync(t.Context(), m).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are dead", func() error {
			list, err := r.outbox.List(t.Context(), 10, 0)
			if err != nil || len(list) != 3 {
				return fmt.Errorf("%d letters, error %w", len(list), err)
			}
			return nil
		})
		if n := r.stream.Counters().Stray.Load(); n != 3 {
			t.Errorf("%d strays counted", n)
		}
		list, err := r.outbox.List(t.Context(), 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list { // the relay must not stumble over what it cannot send anywhere
			if d.Failure.Text == "" {
				t.Errorf("the letter of consumer %q has no reason", d.Consumer)
			}
			if err := r.outbox.Replay(t.Context(), d.ID); err != nil {
				t.Fatal(err)
			}
		}
		var l ledger
		r.run(t, &l)
		r.publish(t, "after", 10)
		l.want(t, 10)
	})
}

func TestCheck(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		if err := r.stream.Check(t.Context()); err != nil {
			t.Errorf("what it made itself: %v", err)
		}
		adm := kadm.NewClient(r.raw(t))
		for topic, settings := range map[string]map[string]string{
			"bad.delay.5s": {"message.timestamp.type": "CreateTime", "retention.ms": "1000"},
			"bad.park":     {"cleanup.policy": "compact"},
			"bad.exports":  {"max.message.bytes": "1000"},
			"bad.dlq":      {"retention.ms": "-1"},
		} {
			set := map[string]*string{}
			for k, v := range settings {
				set[k] = &v
			}
			if _, err := adm.CreateTopic(t.Context(), 1, 1, set, topic); err != nil {
				t.Fatal(err)
			}
		}
		r.opt.Namespace = "bad"
		err := r.open(t).Check(t.Context())
		if err == nil {
			t.Fatal("nothing is wrong")
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 4 {
			t.Errorf("%d faults:\n%v", len(lines), err)
		}
		for _, want := range []string{"message.timestamp.type", "LogAppendTime", "bad.delay.5s", "retention.ms", "cleanup.policy", "max.message.bytes"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no word of %s in:\n%v", want, err)
			}
		}
		if !drive.IsKind(errors.Unwrap(errors.Join(err)), drive.Internal, drive.Precondition) && !strings.Contains(err.Error(), "precondition") {
			t.Errorf("error %v", err)
		}
	})
}

func TestCheckRefusesAnOldBroker(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V3_5_0()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s, err := kafka.New(kafka.Options{Brokers: cluster.ListenAddrs(), Log: silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Check(t.Context()); !drive.IsKind(err, drive.Precondition) || !strings.Contains(err.Error(), "oldest:3.7") {
		t.Errorf("error %v", err)
	}
}

func TestAStreamEndsWithoutItsBroker(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		var l ledger
		stop := r.run(t, &l)
		r.publish(t, "x", 10)
		l.want(t, 10)
		r.cluster.Close()
		r.publish(t, "y", 10)
		begin := time.Now()
		stop()
		r.stopRelay()
		r.stopLevels()
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestUnavailablePartitionDelaysNoOther: a partition without available replicas delays only its own
// records.
func TestUnavailablePartitionDelaysNoOther(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		var l ledger
		r.run(t, &l)
		fault := r.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: "smartdrive.uploads", Partitions: []int32{0}, Err: kerr.NotEnoughReplicas, Count: -1,
		})
		const all = 3000 // of 60 accounts, over three partitions
		r.publish(t, "x", all)
		eventually(t, "the others come", func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.seen) < all/4 {
				return fmt.Errorf("%d of %d", len(l.seen), all)
			}
			return nil
		})
		if fault.Hits() == 0 {
			t.Error("the partition was never tried")
		}
		fault.Remove()
		if n := l.want(t, all); n != 0 {
			t.Errorf("%d came twice", n)
		}
	})
}
