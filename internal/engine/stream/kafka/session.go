package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// session is a member of its consumer's group. A goroutine fetches into a bounded buffer from which
// Poll takes; when nobody polls, because the consumer waits out an outage, it stops fetching and
// the partitions stay.
type session struct {
	s     *Stream
	sub   stream.Subscription
	names [2]string // log, retries
	cl    *kgo.Client

	ready  chan struct{}
	room   chan struct{} // Poll took something
	ended  chan struct{}
	cancel context.CancelFunc

	mu      sync.Mutex
	parts   map[part]*tracked
	buffers [2][]*kgo.Record // log, retries; fetched and not polled
	failed  error            // why the session can go on no longer
	tenures uint64           // how many partitions were assigned so far
}

type part struct {
	retry bool
	n     int32
}

// tracked is a partition that the session has. One that went away and came back is another tenure:
// what was polled before may have been settled or repeated by others meanwhile, so it no longer
// counts.
type tracked struct {
	tenure uint64
	epoch  int32 // of the leader that the last record came from
	next   int64 // the first offset that was not fetched; -1: nothing was
}

// bufferLimit is how many records wait in a session before it fetches no more.
const bufferLimit = 1000

var (
	_ stream.Session = (*session)(nil)
	_ stream.Sharer  = (*session)(nil)
)

func newSession(s *Stream, sub stream.Subscription, log, retries string) *session {
	return &session{
		s: s, sub: sub, names: [2]string{log, retries}, parts: map[part]*tracked{},
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

func (one *session) start(cl *kgo.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	one.cl, one.cancel = cl, cancel
	go one.fetch(ctx)
}

func index(retry bool) int {
	if retry {
		return 1
	}
	return 0
}

func (one *session) fetch(ctx context.Context) {
	defer close(one.ended)
	for ctx.Err() == nil {
		if !one.hasRoom() {
			select {
			case <-ctx.Done():
			case <-one.room:
			}
			continue
		}
		fetches := one.cl.PollRecords(ctx, bufferLimit/2)
		failed := one.take(ctx, fetches)
		one.cl.AllowRebalance()
		if failed { // a broker that forbids something says so at once, and would say it again at once
			return
		}
	}
}

func (one *session) hasRoom() bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	return len(one.buffers[0])+len(one.buffers[1]) < bufferLimit
}

// take puts what was fetched into the buffers, and reports whether the session can go on no longer.
// Rebalances wait until it is done.
func (one *session) take(ctx context.Context, fetches kgo.Fetches) (failed bool) {
	one.mu.Lock()
	defer one.mu.Unlock()
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() == nil {
			one.fail(topic, partition, err)
		}
	})
	fetches.EachRecord(func(m *kgo.Record) {
		retry := m.Topic == one.names[1]
		t := one.parts[part{retry, m.Partition}]
		if t == nil {
			return // it moved away while the answer was on its way
		}
		t.next = m.Offset + 1
		one.buffers[index(retry)] = append(one.buffers[index(retry)], m)
	})
	one.signal()
	return one.failed != nil
}

// fail notes an error of fetching. Most pass by themselves; a session that is out of its group
// starts again.
func (one *session) fail(topic string, partition int32, err error) {
	if _, lost := errors.AsType[*kgo.ErrDataLoss](err); lost {
		one.s.opt.Log.Error("records were lost by the broker", "topic", topic, "partition", partition, "error", err)
		return
	}
	one.s.noteMissing(topic, err)
	if one.failed == nil {
		one.failed = fmt.Errorf("fetch %s: %w", topic, classify(err))
	}
}

func (one *session) signal() {
	select {
	case one.ready <- struct{}{}:
	default:
	}
}

// assigned implements holder.
func (one *session) assigned(parts map[string][]int32) {
	one.mu.Lock()
	defer one.mu.Unlock()
	for topic, list := range parts {
		for _, n := range list {
			one.tenures++
			one.parts[part{topic == one.names[1], n}] = &tracked{tenure: one.tenures, next: -1, epoch: -1}
		}
	}
}

// revoked implements holder: what was fetched and not settled of these partitions is dropped.
func (one *session) revoked(parts map[string][]int32) {
	one.mu.Lock()
	defer one.mu.Unlock()
	for topic, list := range parts {
		retry := topic == one.names[1]
		for _, n := range list {
			delete(one.parts, part{retry, n})
			one.s.counters.Moved.Add(1)
		}
		kept := one.buffers[index(retry)][:0]
		for _, m := range one.buffers[index(retry)] {
			if one.parts[part{retry, m.Partition}] != nil {
				kept = append(kept, m)
			}
		}
		clear(one.buffers[index(retry)][len(kept):])
		one.buffers[index(retry)] = kept
	}
}

// Poll implements stream.Session.
func (one *session) Poll(_ context.Context, limit int) ([]stream.Delivery, time.Time, error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.failed != nil {
		return nil, time.Time{}, one.failed
	}
	batch := append(one.poll(true, limit), one.poll(false, limit)...)
	var next time.Time
	if len(one.buffers[0])+len(one.buffers[1]) > 0 {
		next = one.s.opt.Now()
	}
	select {
	case one.room <- struct{}{}:
	default:
	}
	return batch, next, nil
}

func (one *session) poll(retry bool, limit int) []stream.Delivery {
	buffer := &one.buffers[index(retry)]
	n := min(limit, len(*buffer))
	batch := make([]stream.Delivery, 0, n)
	for _, m := range (*buffer)[:n] {
		t := one.parts[part{retry, m.Partition}]
		t.epoch = m.LeaderEpoch
		batch = append(batch, delivery(one.sub.Topic, retry, t.tenure, m))
	}
	*buffer = append([]*kgo.Record(nil), (*buffer)[n:]...)
	return batch
}

// Ready implements stream.Session.
func (one *session) Ready() <-chan struct{} { return one.ready }

// Holds implements stream.Sharer.
func (one *session) Holds(d stream.Delivery) bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	t := one.parts[part{d.Retry, d.Position.Partition}]
	return t != nil && t.tenure == d.Hold
}

// Settle implements stream.Session: what failed is made durable elsewhere, then the offsets are
// committed. Outcomes of partitions that have moved are left to their new owner.
func (one *session) Settle(ctx context.Context, outcomes []stream.Outcome) error {
	held := make([]stream.Outcome, 0, len(outcomes))
	for _, out := range outcomes {
		if one.Holds(out.Delivery) {
			held = append(held, out)
		}
	}
	one.s.counters.Dropped.Add(int64(len(outcomes) - len(held)))
	if err := one.passOn(ctx, held); err != nil {
		return fmt.Errorf("settle for %s of %s: %w", one.sub.Consumer, one.sub.Topic, err)
	}
	commit := one.commitOf(held)
	if len(commit) == 0 {
		return nil
	}
	if err := commitOffsets(ctx, one.cl, commit); err != nil {
		return fmt.Errorf("settle for %s of %s: %w", one.sub.Consumer, one.sub.Topic, err)
	}
	return nil
}

// passOn sends failed records to their level, or to the dead letters.
func (one *session) passOn(ctx context.Context, outcomes []stream.Outcome) error {
	var messages []*kgo.Record
	for _, out := range outcomes {
		var to string
		switch out.Verdict {
		case stream.Ack:
			continue
		case stream.Delay:
			to = one.s.level(out.Level)
			if err := one.s.ensure(ctx, one.s.levelSpec(out.Level)); err != nil {
				return err
			}
		case stream.Bury:
			to = one.s.dlq()
			if err := one.s.ensure(ctx, spec{name: to, keep: keepDead}); err != nil {
				return err
			}
		}
		messages = append(messages, returning(to, one.sub.Consumer, out.Delivery, out.Failure))
	}
	if len(messages) == 0 {
		return nil
	}
	return one.s.produce(ctx, messages)
}

type offsets = map[string]map[int32]kgo.EpochOffset

// commitOf returns the offsets behind the outcomes.
func (one *session) commitOf(outcomes []stream.Outcome) offsets {
	one.mu.Lock()
	defer one.mu.Unlock()
	commit := offsets{}
	for _, out := range outcomes {
		t := one.parts[part{out.Retry, out.Position.Partition}]
		if t == nil || t.tenure != out.Hold {
			continue // it moved while the failures were sent: they will fail again, or not
		}
		name := one.names[index(out.Retry)]
		if commit[name] == nil {
			commit[name] = map[int32]kgo.EpochOffset{}
		}
		commit[name][out.Position.Partition] = kgo.EpochOffset{Epoch: t.epoch, Offset: out.Position.Offset + 1}
	}
	return commit
}

// Close implements stream.Session: it leaves the group, so that others need not wait for the
// session to time out.
func (one *session) Close() error {
	one.s.mu.Lock()
	_, open := one.s.open[one]
	delete(one.s.open, one)
	one.s.mu.Unlock()
	if !open {
		return nil
	}
	one.cancel()
	<-one.ended
	one.cl.CloseAllowingRebalance()
	return nil
}

// commitOffsets commits and waits. While partitions are dealt out again the broker takes no commit
// for a moment.
func commitOffsets(ctx context.Context, cl *kgo.Client, commit offsets) error {
	for {
		var failed error
		cl.CommitOffsetsSync(ctx, commit, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					failed = errors.Join(failed, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
		switch {
		case failed == nil:
			return nil
		case errors.Is(failed, kerr.RebalanceInProgress) && ctx.Err() == nil:
			pause(ctx, nil, firstPause)
		case isMembership(failed):
			return drive.Wrap(fmt.Errorf("commit offsets: %w", failed), drive.WrongState)
		default:
			return fmt.Errorf("commit offsets: %w", classify(failed))
		}
	}
}

// isMembership reports whether the broker refused because of who is in the group now.
func isMembership(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress)
}
