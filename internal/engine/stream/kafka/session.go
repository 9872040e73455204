package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/engine/stream"
)

// session is a member of its consumer's group. A goroutine fetches into a bounded buffer, from
// which Poll takes. While the consumer waits out an outage and does not poll, fetching stops and
// the partitions stay assigned.
type session struct {
	s     *Stream
	sub   stream.Subscription
	names [2]string // topics: log, retries
	cl    *member

	ready     chan struct{} // signals that records arrived or the session failed
	roomFreed chan struct{} // signals that Poll emptied a part of the buffers
	done      chan struct{} // closed when the fetching goroutine has returned
	cancel    context.CancelFunc

	mu      sync.Mutex
	parts   map[part]*tracked // assigned partitions
	buffers [2][]*kgo.Record  // log, retries: fetched and not polled
	failed  error             // error that ends the session
	tenures uint64            // number of partition assignments so far
}

// part identifies a partition of the consumer's topic or of its retry topic.
type part struct {
	retry bool // of the retry topic
	n     int32
}

// tracked is an assigned partition. A partition that was revoked and assigned again has another
// tenure. Records polled under an earlier tenure are ignored, because another session may have
// settled or repeated them.
type tracked struct {
	tenure uint64
	epoch  int32 // leader epoch of the last polled record
	next   int64 // offset after the last fetched record; -1: none
}

// bufferLimit is the number of buffered records at which a session stops fetching.
const bufferLimit = 1000

var (
	_ stream.Session         = (*session)(nil)
	_ stream.PartitionSharer = (*session)(nil)
)

// newSession returns a session without a client; the caller must call start.
func newSession(s *Stream, sub stream.Subscription, log, retries string) *session {
	return &session{
		s: s, sub: sub, names: [2]string{log, retries}, parts: map[part]*tracked{},
		ready: make(chan struct{}, 1), roomFreed: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// start starts a goroutine that fetches with the client cl until Close, which also closes cl. It
// must be called once.
func (sess *session) start(cl *member) {
	ctx, cancel := context.WithCancel(context.Background())
	sess.cl, sess.cancel = cl, cancel
	go sess.fetch(ctx)
}

// index returns the position of the topic of retries (1) or of the log (0) in session.names and its
// buffers.
func index(retry bool) int {
	if retry {
		return 1
	}
	return 0
}

// fetch fetches messages into the buffers until ctx is done or a fetch fails, and then closes
// sess.done. It waits while the buffers are full. It is a goroutine of the session.
func (sess *session) fetch(ctx context.Context) {
	defer close(sess.done)
	for ctx.Err() == nil {
		if !sess.hasRoom() {
			select {
			case <-ctx.Done():
			case <-sess.roomFreed:
			}
			continue
		}
		fetches := sess.cl.poll(ctx, bufferLimit/2)
		failed := sess.addFetched(ctx, fetches)
		sess.cl.AllowRebalance()
		if failed { // a broker that refuses access fails every poll immediately
			return
		}
	}
}

// hasRoom reports whether fewer than bufferLimit messages are buffered, so that another fetch may
// start.
func (sess *session) hasRoom() bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return len(sess.buffers[0])+len(sess.buffers[1]) < bufferLimit
}

// addFetched adds fetched records to the buffers and reports whether the session has failed. It
// must be called before AllowRebalance.
func (sess *session) addFetched(ctx context.Context, fetches kgo.Fetches) (failed bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() == nil {
			sess.noteError(topic, partition, err)
		}
	})
	fetches.EachRecord(func(m *kgo.Record) {
		retry := m.Topic == sess.names[1]
		t := sess.parts[part{retry, m.Partition}]
		if t == nil {
			return // the partition was revoked meanwhile
		}
		t.next = m.Offset + 1
		sess.buffers[index(retry)] = append(sess.buffers[index(retry)], m)
	})
	sess.signal()
	return sess.failed != nil
}

// noteError records an error of fetching, which ends the session; the first one wins. Records that
// the broker has lost are only logged. The caller holds sess.mu.
func (sess *session) noteError(topic string, partition int32, err error) {
	if _, lost := errors.AsType[*kgo.ErrDataLoss](err); lost {
		sess.s.opt.Log.Error("the broker lost records; consumers skip them", "topic", topic, "partition", partition, "error", err)
		return
	}
	if sess.failed == nil {
		sess.failed = fmt.Errorf("fetch %s: %w", topic, classify(err))
	}
}

// signal wakes the reader of the channel that Ready returns. It never blocks.
func (sess *session) signal() {
	select {
	case sess.ready <- struct{}{}:
	default:
	}
}

// assigned starts tracking partitions that the group assigned to this member (partitionListener).
func (sess *session) assigned(parts map[string][]int32) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	for topic, list := range parts {
		for _, n := range list {
			sess.tenures++
			sess.parts[part{topic == sess.names[1], n}] = &tracked{tenure: sess.tenures, next: -1, epoch: -1}
		}
	}
}

// revoked removes the partitions that the group took from this member, with their buffered and
// unsettled records (partitionListener). Their next owner receives these records again.
func (sess *session) revoked(parts map[string][]int32) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	for topic, list := range parts {
		retry := topic == sess.names[1]
		for _, n := range list {
			delete(sess.parts, part{retry, n})
			sess.s.counters.Moved.Add(1)
		}
		kept := sess.buffers[index(retry)][:0]
		for _, m := range sess.buffers[index(retry)] {
			if sess.parts[part{retry, m.Partition}] != nil {
				kept = append(kept, m)
			}
		}
		clear(sess.buffers[index(retry)][len(kept):])
		sess.buffers[index(retry)] = kept
	}
}

// Poll returns up to limit retries, then up to limit records, from the buffers (stream.Session).
// The time is the present one if buffered records remain, else zero. It returns the error that
// ended the session, if any.
func (sess *session) Poll(_ context.Context, limit int) ([]stream.Delivery, time.Time, error) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.failed != nil {
		return nil, time.Time{}, sess.failed
	}
	batch := append(sess.poll(true, limit), sess.poll(false, limit)...)
	var next time.Time
	if len(sess.buffers[0])+len(sess.buffers[1]) > 0 {
		next = sess.s.opt.Now()
	}
	select {
	case sess.roomFreed <- struct{}{}:
	default:
	}
	return batch, next, nil
}

// poll removes up to limit records from the buffer of the retries or of the topic and returns them,
// in order; they are unsettled from now on. The caller holds sess.mu.
func (sess *session) poll(retry bool, limit int) []stream.Delivery {
	buffer := &sess.buffers[index(retry)]
	n := min(limit, len(*buffer))
	batch := make([]stream.Delivery, 0, n)
	for _, m := range (*buffer)[:n] {
		t := sess.parts[part{retry, m.Partition}]
		t.epoch = m.LeaderEpoch
		batch = append(batch, newDelivery(sess.sub.Topic, retry, t.tenure, m))
	}
	*buffer = append([]*kgo.Record(nil), (*buffer)[n:]...)
	return batch
}

// Ready receives a value after records were fetched (stream.Session).
func (sess *session) Ready() <-chan struct{} { return sess.ready }

// Owns reports whether the partition of the delivery is still assigned to this session, without
// interruption since the poll (stream.PartitionSharer).
func (sess *session) Owns(d stream.Delivery) bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	t := sess.parts[part{d.Retry, d.Position.Partition}]
	return t != nil && t.tenure == d.Tenure
}

// Settle sends failed records to their level or the dlq, waits until they are durable, and then
// commits the offsets (stream.Session). If it fails in between, records may be delivered again.
// Outcomes of revoked partitions are ignored.
func (sess *session) Settle(ctx context.Context, outcomes []stream.Outcome) error {
	held := make([]stream.Outcome, 0, len(outcomes))
	for _, out := range outcomes {
		if sess.Owns(out.Delivery) {
			held = append(held, out)
		}
	}
	sess.s.counters.Dropped.Add(int64(len(outcomes) - len(held)))
	if err := sess.sendFailed(ctx, held); err != nil {
		return fmt.Errorf("settle for %s of %s: %w", sess.sub.Consumer, sess.sub.Topic, err)
	}
	commit := sess.commitOf(held)
	if len(commit) == 0 {
		return nil
	}
	if err := sess.cl.commit(ctx, commit); err != nil {
		return fmt.Errorf("settle for %s of %s: %w", sess.sub.Consumer, sess.sub.Topic, err)
	}
	return nil
}

// sendFailed produces the failed records of outcomes to the topic of their retry level or to the
// dead letter topic, creating the topics if necessary, and waits for the acknowledgment of all.
// Acknowledged outcomes are skipped. The caller commits the offsets only after it has returned nil.
func (sess *session) sendFailed(ctx context.Context, outcomes []stream.Outcome) error {
	var messages []*kgo.Record
	for _, out := range outcomes {
		var to string
		switch out.Verdict {
		case stream.Ack:
			continue
		case stream.Delay:
			to = sess.s.level(out.Level)
			if err := sess.s.ensure(ctx, sess.s.levelSpec(out.Level)); err != nil {
				return err
			}
		case stream.Dead:
			to = sess.s.dlq()
			if err := sess.s.ensure(ctx, topicSpec{name: to, retention: keepDead}); err != nil {
				return err
			}
		}
		messages = append(messages, retryMessage(to, sess.sub.Consumer, out.Delivery, out.Failure))
	}
	if len(messages) == 0 {
		return nil
	}
	return sess.s.produce(ctx, messages)
}

// commitOf returns the offsets to commit so that the outcomes are not delivered again. Records of
// partitions that were revoked since their delivery are left out, because the new owner handles
// them.
func (sess *session) commitOf(outcomes []stream.Outcome) offsets {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	commit := offsets{}
	for _, out := range outcomes {
		t := sess.parts[part{out.Retry, out.Position.Partition}]
		if t == nil || t.tenure != out.Tenure {
			continue // revoked while the failures were sent: the new owner repeats them
		}
		name := sess.names[index(out.Retry)]
		if commit[name] == nil {
			commit[name] = map[int32]kgo.EpochOffset{}
		}
		commit[name][out.Position.Partition] = kgo.EpochOffset{Epoch: t.epoch, Offset: out.Position.Offset + 1}
	}
	return commit
}

// Close leaves the group without settling, so that other members get the partitions without waiting
// for the session timeout (stream.Session). A second call does nothing.
func (sess *session) Close() error {
	sess.s.mu.Lock()
	_, open := sess.s.open[sess]
	delete(sess.s.open, sess)
	sess.s.mu.Unlock()
	if !open {
		return nil
	}
	sess.cancel()
	<-sess.done
	sess.cl.CloseAllowingRebalance()
	return nil
}
