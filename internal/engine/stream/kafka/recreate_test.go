package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/kafka"
)

// shortLevels make a record a dead letter after two failures.
var shortLevels = []stream.Level{{Name: "a", Delay: time.Second}}

// eachBroker runs a test against brokers in memory that identify topics by id and by name, and
// against the real broker.
func eachBroker(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Parallel()
	for name, opts := range map[string][]kfake.Opt{"newest": nil, "oldest": {kfake.MaxVersions(kversion.V3_7_0())}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, inMemory(t, opts...))
		})
	}
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, onBroker(t, kafka.Options{Levels: shortLevels, SessionTimeout: 10 * time.Second}))
	})
}

// inMemory makes a stream on brokers in memory, in real time.
func inMemory(t *testing.T, opts ...kfake.Opt) *rig {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := newRig(t, kafka.Options{
		Brokers: cluster.ListenAddrs(), Partitions: 3, Levels: shortLevels, RelayEvery: 20 * time.Millisecond, SessionTimeout: 10 * time.Second,
		Namespace: "smartdrive",
	}, sqldbtest.Open(t))
	r.cluster = cluster
	return r
}

// consume runs a consumer of uploads.
func (r *rig) consume(t *testing.T, name string, start stream.Start, handle func(context.Context, stream.Record) error) (stop func()) {
	c := stream.Consumer{Name: name, Topic: stream.TopicUploads, Handle: handle, Start: start, Parallel: 4}
	return background(t, stream.NewRunner(r.stream, c, stream.Options{Levels: r.opt.Levels, Log: silent}).Run)
}

// awaitCursor waits until a consumer of uploads has its first cursor.
func (r *rig) awaitCursor(t *testing.T, name string) {
	t.Helper()
	adm, topic := kadm.NewClient(r.raw(t)), r.opt.Namespace+".uploads"
	eventually(t, "the cursor of "+name, func() error {
		have, err := adm.FetchOffsetsForTopics(t.Context(), r.opt.Namespace+"."+name+".uploads", topic)
		for n, at := range have[topic] {
			if at.At < 0 {
				err = fmt.Errorf("partition %d has none", n)
			}
		}
		return err
	})
}

// deleteAll deletes the topics and waits until the broker no longer knows any of them, or until
// they have another id.
func (r *rig) deleteAll(t *testing.T, topics ...string) {
	t.Helper()
	adm := kadm.NewClient(r.raw(t))
	before, err := adm.ListTopics(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	if len(topics) == 0 {
		for name := range before {
			if strings.HasPrefix(name, r.opt.Namespace+".") {
				topics = append(topics, name)
			}
		}
	}
	gone, err := adm.DeleteTopics(t.Context(), topics...)
	if err := errors.Join(err, gone.Error()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the broker forgets the topics", func() error {
		after, err := adm.ListTopics(t.Context(), topics...)
		for name, topic := range after {
			if topic.Err == nil && topic.ID == before[name].ID {
				err = fmt.Errorf("%s is still there", name)
			}
		}
		return err
	})
}

// has waits until a ledger has all subjects.
func (l *ledger) has(t *testing.T, subjects ...string) {
	t.Helper()
	eventually(t, "all handled", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, s := range subjects {
			if l.seen[s] == 0 {
				return fmt.Errorf("%s is missing", s)
			}
		}
		return nil
	})
}

// TestDeletedTopicsAreCreatedAgain: what is published after a deletion arrives, at once, from a
// delay level and as a dead letter, also for a consumer that started at the end, and also after a
// second deletion.
func TestDeletedTopicsAreCreatedAgain(t *testing.T) {
	eachBroker(t, func(t *testing.T, r *rig) {
		var l, late ledger
		tries := map[string]int{}
		l.answer = func(rec stream.Record) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if tries[rec.Subject]++; strings.HasPrefix(rec.Subject, "dead") || strings.HasPrefix(rec.Subject, "later") && tries[rec.Subject] == 1 {
				return errors.New("no")
			}
			return nil
		}
		r.consume(t, "w", stream.FromBeginning, l.handle)
		r.consume(t, "end", stream.FromEnd, late.handle)
		r.awaitCursor(t, "end")
		for round := range 3 {
			var all []string
			for i := range 30 {
				for _, kind := range []string{"now", "later"} {
					all = append(all, fmt.Sprintf("%s-%d-%d", kind, round, i))
				}
			}
			r.Publish(t, drive.NewID[drive.AccountID](), append(all, fmt.Sprintf("dead-%d", round))...)
			l.has(t, all...)
			late.has(t, append(all, fmt.Sprintf("dead-%d", round))...)
			eventually(t, "the letter", func() error {
				list, err := r.outbox.List(t.Context(), 10, 0)
				if err != nil || len(list) != round+1 {
					return fmt.Errorf("%d letters, error %w", len(list), err)
				}
				return nil
			})
			if round < 2 {
				r.deleteAll(t)
			}
		}
	})
}

// TestDeletionUnderLoadLosesNothingLater: records published after a deletion arrive while others
// are being sent and handled.
func TestDeletionUnderLoadLosesNothingLater(t *testing.T) {
	eachBroker(t, func(t *testing.T, r *rig) {
		var l ledger
		r.consume(t, "w", stream.FromBeginning, l.handle)
		var next atomic.Int64
		stop := background(t, func(ctx context.Context) error {
			for ctx.Err() == nil {
				first := next.Load()
				var subjects []string
				for i := range int64(20) {
					subjects = append(subjects, fmt.Sprint("x-", first+i))
				}
				r.Publish(t, drive.NewID[drive.AccountID](), subjects...)
				next.Add(20)
				r.Clock.Advance(20 * time.Millisecond)
			}
			return nil
		})
		reached := func(n int64) {
			eventually(t, "published", func() error {
				if next.Load() < n {
					return errors.New("not enough")
				}
				return nil
			})
		}
		l.has(t, "x-100")
		var from int64
		for range 3 {
			r.deleteAll(t, r.opt.Namespace+".uploads")
			from = next.Load() + 20 // the transaction under way may be older than the deletion
			reached(from + 400)
			l.has(t, fmt.Sprint("x-", from+200))
		}
		stop()
		var all []string
		for i := from; i < next.Load(); i++ {
			all = append(all, fmt.Sprint("x-", i))
		}
		l.has(t, all...)
	})
}

// TestCommitOfADeletedTopicIsIgnored: a commit of a deleted topic that arrives after the topic was
// created again makes no consumer skip records.
func TestCommitOfADeletedTopicIsIgnored(t *testing.T) {
	eachBroker(t, func(t *testing.T, r *rig) {
		var before, after ledger
		stop := r.consume(t, "end", stream.FromEnd, before.handle)
		r.awaitCursor(t, "end")
		r.publish(t, "before", 300)
		before.want(t, 300)
		stop()
		adm := kadm.NewClient(r.raw(t))
		topic, group := r.opt.Namespace+".uploads", r.opt.Namespace+".end.uploads"
		old, err := adm.FetchOffsetsForTopics(t.Context(), group, topic)
		if err != nil {
			t.Fatal(err)
		}
		r.deleteAll(t, topic)
		r.publish(t, "after", 600)
		r.quiet(t)
		if err := adm.CommitAllOffsets(t.Context(), group, old.Offsets()); err != nil {
			t.Fatal(err)
		}
		stop = r.consume(t, "end", stream.FromEnd, after.handle)
		after.want(t, 600)
		r.quiet(t)
		stop()
		var again ledger // the cursors are of the new topic now
		r.publish(t, "last", 50)
		r.consume(t, "end", stream.FromEnd, again.handle)
		if again.want(t, 50) != 0 {
			t.Error("records came twice")
		}
	})
}

// TestTopicRecreatedWhileJoiningLosesNothing: if the topic is created again between the look at its
// id and the start of the client, an offset committed for the old topic makes the consumer skip no
// records of the new one.
func TestTopicRecreatedWhileJoiningLosesNothing(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]kfake.Opt{"newest": nil, "oldest": {kfake.MaxVersions(kversion.V3_7_0())}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := inMemory(t, opts...)
			var before, after ledger
			stop := r.consume(t, "w", stream.FromBeginning, before.handle)
			r.publish(t, "before", 300)
			before.want(t, 300)
			stop()
			adm := kadm.NewClient(r.raw(t))
			old, err := adm.FetchOffsetsForTopics(t.Context(), "smartdrive.w.uploads", "smartdrive.uploads")
			if err != nil {
				t.Fatal(err)
			}
			recreate := sync.OnceFunc(func() {
				r.deleteAll(t, "smartdrive.uploads")
				r.publish(t, "after", 600)
				eventually(t, "relayed", func() error {
					n, _, err := r.outbox.Waiting(t.Context())
					if err == nil && n > 0 {
						err = fmt.Errorf("%d wait", n)
					}
					return err
				})
				if err := adm.CommitAllOffsets(t.Context(), "smartdrive.w.uploads", old.Offsets()); err != nil {
					t.Error(err)
				}
			})
			r.cluster.ControlKey(kmsg.OffsetFetch.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { // Open has looked up the id
				r.cluster.SleepControl(recreate)
				return nil, nil, false
			})
			r.consume(t, "w", stream.FromBeginning, after.handle)
			after.want(t, 600)
		})
	}
}

// TestSendCreatesADeletedTopic: the first call after a deletion may fail; the caller's retry
// succeeds and the record arrives.
func TestSendCreatesADeletedTopic(t *testing.T) {
	eachBroker(t, func(t *testing.T, r *rig) {
		var l ledger
		r.consume(t, "w", stream.FromBeginning, l.handle)
		for round := range 3 {
			rec, err := stream.New(stream.TopicUploads, stream.TopicUploads.Types()[0], drive.NewID[drive.AccountID](), fmt.Sprint(round), struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "sent", func() error {
				err := r.stream.Send(t.Context(), rec)
				if err != nil && !drive.IsKind(err, drive.Unavailable) {
					t.Errorf("error %v", err)
				}
				return err
			})
			l.has(t, fmt.Sprint(round))
			r.deleteAll(t)
		}
	})
}

// TestTopicThatCannotBeCreatedDelaysNoOther: while a deleted retry topic cannot be created, retries
// of other consumers arrive; its own arrive afterwards.
func TestTopicThatCannotBeCreatedDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	var ours, theirs ledger
	failFirst := func(l *ledger) {
		tries := map[string]int{}
		l.answer = func(rec stream.Record) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if tries[rec.Subject]++; tries[rec.Subject] == 1 {
				return errors.New("no")
			}
			return nil
		}
	}
	failFirst(&ours)
	failFirst(&theirs)
	stop := r.consume(t, "w", stream.FromBeginning, ours.handle)
	r.consume(t, "v", stream.FromBeginning, theirs.handle)
	r.publish(t, "before", 10)
	ours.want(t, 10)
	theirs.want(t, 10)
	stop()
	topic := "smartdrive.retry.w.uploads"
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: topic, Err: kerr.PolicyViolation, Count: -1})
	r.deleteAll(t, topic)
	m := &kgo.Record{Topic: "smartdrive.delay.a", Headers: []kgo.RecordHeader{
		{Key: "sd-consumer", Value: []byte("w")}, {Key: "sd-topic", Value: []byte(stream.TopicUploads)}, {Key: "sd-failures", Value: []byte("1")},
	}}
	rec, err := stream.New(stream.TopicUploads, stream.TopicUploads.Types()[0], drive.NewID[drive.AccountID](), "retried", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	rec.Source, rec.Time = "smartdrive/test", 1
	if m.Value, err = rec.Encode(); err != nil {
		t.Fatal(err)
	}
	for range 20 { // on each partition of the level
		if err := r.raw(t).ProduceSync(t.Context(), &kgo.Record{Topic: m.Topic, Headers: m.Headers, Value: m.Value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "creation is refused", func() error {
		if fault.Hits() == 0 {
			return errors.New("never tried")
		}
		return nil
	})
	r.publish(t, "after", 10)
	theirs.want(t, 20)
	fault.Remove()
	ours.answer = nil
	r.consume(t, "w", stream.FromBeginning, ours.handle)
	ours.has(t, "retried")
	if list, err := r.outbox.List(t.Context(), 10, 0); err != nil || len(list) != 0 {
		t.Errorf("%d letters, error %v", len(list), err)
	}
}

// TestRecreatedTargetReceivesMessages: messages for another producer's topic arrive after that
// topic was deleted and created again.
func TestRecreatedTargetReceivesMessages(t *testing.T) {
	fake(t, func(t *testing.T, r *rig) {
		raw := r.raw(t)
		adm := kadm.NewClient(raw)
		r.stopLevels() // of the stream that knows no targets
		r.opt.Targets = []string{"orders.late"}
		background(t, r.open(t).RunLevels)
		for round := range 3 {
			if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "orders.late"); err != nil {
				t.Fatal(err)
			}
			m := &kgo.Record{Topic: "smartdrive.delay." + testLevels[0].Name, Value: []byte(fmt.Sprintf(`{"topic": "orders.late", "value": "%d"}`, round))}
			if err := raw.ProduceSync(t.Context(), m).FirstErr(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			fetches := r.raw(t, kgo.ConsumeTopics("orders.late")).PollFetches(ctx)
			cancel()
			if err := fetches.Err(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if got := string(fetches.Records()[0].Value); got != fmt.Sprint(round) {
				t.Errorf("round %d: got %q", round, got)
			}
			r.deleteAll(t, "orders.late")
		}
	})
}

// TestFirstStartOnTwoInstancesBeginsAtTheEnd lets one instance set the cursors of a FromEnd
// consumer while another one examines the group: the other must not reset them to the oldest
// record.
func TestFirstStartOnTwoInstancesBeginsAtTheEnd(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	r.publish(t, "old", 50)
	r.relayed(t)
	a, b := r.open(t), r.open(t)
	sub := stream.Subscription{Consumer: "end", Topic: stream.TopicUploads, Start: stream.FromEnd}
	var met atomic.Bool
	r.cluster.ControlKey(kmsg.DescribeGroups.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if met.CompareAndSwap(false, true) {
			r.cluster.SleepControl(func() {
				if _, err := a.Open(t.Context(), sub); err != nil {
					t.Error(err)
				}
			})
		}
		return nil, nil, false
	})
	if _, err := b.Open(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(r.raw(t))
	cursors, err := admin.FetchOffsetsForTopics(t.Context(), "smartdrive.end.uploads", "smartdrive.uploads")
	if err != nil {
		t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(t.Context(), "smartdrive.uploads")
	if err != nil {
		t.Fatal(err)
	}
	for n, at := range cursors["smartdrive.uploads"] {
		if end, _ := ends.Lookup("smartdrive.uploads", n); at.At != end.Offset {
			t.Errorf("the cursor of partition %d is %d, its end %d", n, at.At, end.Offset)
		}
	}
}

// TestRemovedGroupOfARunningConsumerSkipsNothing removes the group of a FromEnd consumer, as
// brokers do with empty groups, while the consumer's topics are deleted. It must not count as a new
// group.
func TestRemovedGroupOfARunningConsumerSkipsNothing(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	var l ledger
	r.consume(t, "end", stream.FromEnd, l.handle)
	r.awaitCursor(t, "end")
	r.publish(t, "before", 1)
	l.want(t, 1) // a member without partitions would not notice the deletion
	fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "smartdrive.retry.end.uploads", Err: kerr.PolicyViolation, Count: -1})
	r.deleteAll(t, "smartdrive.uploads", "smartdrive.retry.end.uploads")
	admin := kadm.NewClient(r.raw(t))
	eventually(t, "the group is empty", func() error {
		g, err := admin.DescribeGroups(t.Context(), "smartdrive.end.uploads")
		if state := g["smartdrive.end.uploads"].State; err == nil && state != "Empty" {
			err = fmt.Errorf("state %s", state)
		}
		return err
	})
	if _, err := admin.DeleteGroups(t.Context(), "smartdrive.end.uploads"); err != nil {
		t.Fatal(err)
	}
	r.publish(t, "after", 30)
	r.relayed(t)
	fault.Remove()
	l.want(t, 31)
}

// TestForbiddenLevelStopsNoOther forbids to describe one delay level. The other levels forward.
func TestForbiddenLevelStopsNoOther(t *testing.T) {
	t.Parallel()
	r := hurried(t, 1, 20*time.Second)
	r.stopLevels()
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "smartdrive.delay." + testLevels[1].Name, Err: kerr.TopicAuthorizationFailed, Count: -1})
	background(t, r.open(t).RunLevels)
	var l ledger
	var tries atomic.Int64
	l.answer = func(stream.Record) error {
		if tries.Add(1) == 1 {
			return errors.New("try again")
		}
		return nil
	}
	r.run(t, &l)
	r.publish(t, "x", 1)
	l.want(t, 1)
}

// relayed waits until the relay has sent all records of the outbox.
func (r *rig) relayed(t *testing.T) {
	t.Helper()
	eventually(t, "relayed", func() error {
		n, _, err := r.outbox.Waiting(t.Context())
		if err == nil && n > 0 {
			err = fmt.Errorf("%d wait", n)
		}
		return err
	})
}
