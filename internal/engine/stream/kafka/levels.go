package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// levelState is what RunLevels shows to others.
type levelState struct {
	mu      sync.Mutex
	running map[*waiters]struct{}
}

// RunLevels brings records back whose delay is over, until ctx is done. Every instance may run it:
// the group deals out the partitions.
//
// On a level all records wait for the same time from the moment the broker appended them, so the
// head of a partition is always the earliest due. Heads are held, at most so many a partition, and
// fetching of a partition that has more is paused. One timer runs to the first due time of all;
// then all that are due go to their retry topics as one batch, and only then their offsets are
// committed. Nothing sleeps between polls, and no time-out of a poll matters.
func (s *Stream) RunLevels(ctx context.Context) error {
	w := &waiters{s: s, delays: map[string]stream.Level{}, parts: map[levelPart]*queue{}, wake: make(chan struct{}, 1), away: map[string]time.Time{}}
	var topics []string
	for _, l := range s.opt.Levels {
		w.delays[s.level(l)] = l
		topics = append(topics, s.level(l))
	}
	err := s.loop(ctx, "levels", func(ctx context.Context) (bool, error) {
		var specs []spec
		for _, l := range s.opt.Levels {
			specs = append(specs, s.levelSpec(l))
		}
		if err := s.ensure(ctx, append(specs, spec{name: s.dlq(), keep: keepDead})...); err != nil {
			return false, err
		}
		cl, err := s.member(s.levelGroup(), w, topics...)
		if err != nil {
			return false, fmt.Errorf("read the delay levels: %w", err)
		}
		w.run(ctx, cl)
		return true, nil
	}, func(context.Context) {})
	return err
}

// waiters are the records that wait in this process.
type waiters struct {
	s      *Stream
	cl     *kgo.Client
	delays map[string]stream.Level // by topic
	wake   chan struct{}

	away map[string]time.Time // topics of others that took nothing, until when they are not tried

	mu    sync.Mutex
	parts map[levelPart]*queue
}

type levelPart struct {
	topic string
	n     int32
}

// queue is the head of a partition: what is held, in order. done is the offset to commit, 0 when it
// is committed.
type queue struct {
	held   []*kgo.Record
	bytes  int
	paused bool
	done   int64
	epoch  int32
}

const (
	maxHeld      = 4000    // records of a partition
	maxHeldBytes = 4 << 20 // of a partition
	maxForward   = 5000    // records of one batch
)

// run forwards until ctx is done.
func (w *waiters) run(ctx context.Context, cl *kgo.Client) {
	w.mu.Lock()
	w.cl = cl // partitions may have been dealt out already
	w.mu.Unlock()
	w.show(true)
	defer w.show(false)
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	fetching.Go(func() {
		defer cancel()
		w.fetch(ctx)
	})
	_ = w.s.loop(ctx, "forward", w.forwardOnce, func(ctx context.Context) { pause(ctx, w.wake, w.wait()) })
	cancel()
	fetching.Wait()
	cl.CloseAllowingRebalance()
	w.mu.Lock()
	clear(w.parts)
	w.mu.Unlock()
}

func (w *waiters) show(on bool) {
	state := &w.s.levels
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.running == nil {
		state.running = map[*waiters]struct{}{}
	}
	if on {
		state.running[w] = struct{}{}
	} else {
		delete(state.running, w)
	}
}

// fetch fetches until ctx is done, or until a level was deleted. While the broker forbids reading
// one level, each poll fails at once; fetch then pauses, and the other levels wait as well.
func (w *waiters) fetch(ctx context.Context) {
	bound, failed := firstPause, time.Time{}
	for ctx.Err() == nil {
		fetches := w.cl.PollRecords(ctx, maxHeld)
		err, deleted := w.hold(fetches)
		w.cl.AllowRebalance()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if time.Since(failed) > 2*lastPause {
			bound = firstPause
		}
		w.s.counters.Errors.Add(1)
		w.s.opt.Log.WarnContext(ctx, "fetch the delay levels", "pause", bound, "error", err)
		pause(ctx, nil, bound)
		if deleted {
			return
		}
		bound, failed = min(2*bound, lastPause), time.Now()
	}
}

// hold keeps what was fetched. It returns an error of a partition, and whether a topic is missing.
// Rebalances wait until it is done.
func (w *waiters) hold(fetches kgo.Fetches) (failed error, deleted bool) {
	fetches.EachError(func(topic string, partition int32, err error) {
		deleted = w.s.noteMissing(topic, err) || deleted
		if failed == nil {
			failed = fmt.Errorf("partition %d of %s: %w", partition, topic, err)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	fetches.EachRecord(func(m *kgo.Record) {
		if q := w.parts[levelPart{m.Topic, m.Partition}]; q != nil {
			q.held, q.bytes = append(q.held, m), q.bytes+len(m.Value)
		}
	})
	for p, q := range w.parts {
		if !q.paused && (len(q.held) >= maxHeld || q.bytes >= maxHeldBytes) {
			q.paused = true
			w.cl.PauseFetchPartitions(map[string][]int32{p.topic: {p.n}})
		}
	}
	w.signal()
	return failed, deleted
}

func (w *waiters) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// assigned implements holder.
func (w *waiters) assigned(parts map[string][]int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, list := range parts {
		for _, n := range list {
			w.parts[levelPart{topic, n}] = &queue{}
		}
	}
}

// revoked implements holder: what is held of these partitions is dropped, uncommitted.
func (w *waiters) revoked(parts map[string][]int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, list := range parts {
		for _, n := range list {
			delete(w.parts, levelPart{topic, n})
			w.s.counters.Moved.Add(1)
		}
	}
	if w.cl != nil {
		w.cl.ResumeFetchPartitions(parts) // it would be paused still if it came back
	}
}

// due is when a record may come back. The broker's time is cut to whole milliseconds, so one is
// added: never early.
func (w *waiters) due(m *kgo.Record) time.Time {
	return w.s.opt.Stamped(m.Timestamp).Add(w.delays[m.Topic].Delay + time.Millisecond)
}

// wait is how long nothing is due.
func (w *waiters) wait() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := time.Hour
	for _, q := range w.parts {
		if len(q.held) > 0 {
			first = min(first, w.due(q.held[0]).Sub(w.s.opt.Now()))
		}
	}
	return max(first, 0)
}

// batch is what is forwarded at once: of each partition the records at its head that are due.
type batch struct {
	messages []*kgo.Record
	owners   []*queue      // of each message
	held     []*kgo.Record // what it was made of
}

// some are the messages with these numbers.
func (b batch) some(numbers []int) []*kgo.Record {
	messages := make([]*kgo.Record, len(numbers))
	for n, i := range numbers {
		messages[n] = b.messages[i]
	}
	return messages
}

func (w *waiters) gather() batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b batch
	now := w.s.opt.Now()
	for _, q := range w.parts {
		for _, m := range q.held {
			if len(b.messages) >= maxForward || w.due(m).After(now) {
				break
			}
			b.messages = append(b.messages, w.onward(m))
			b.owners, b.held = append(b.owners, q), append(b.held, m)
		}
	}
	return b
}

// onward is the message that comes back: on the retry topic of its consumer, or, where it names
// none, among the dead letters, so that nothing disappears unseen.
func (w *waiters) onward(m *kgo.Record) *kgo.Record {
	consumer, topic := header(m, headerConsumer), stream.Topic(header(m, headerTopic))
	if consumer == "" && topic == "" {
		out, err := w.s.foreign(m)
		if err != nil {
			w.s.counters.Stray.Add(1)
			return refused(w.s.dlq(), m, err)
		}
		return out
	}
	if !legal(consumer) || topic.Types() == nil {
		w.s.counters.Stray.Add(1)
		return stray(w.s.dlq(), m, drive.Wrap(fmt.Errorf("it names no consumer that there is: %.100q of topic %.100q", consumer, topic), drive.BadRequest))
	}
	return forwarded(w.s.retry(consumer, topic), m)
}

// forwardOnce sends what is due and commits what has been sent. What was sent and not committed is
// not sent again by this process, only by one that takes the partition over.
func (w *waiters) forwardOnce(ctx context.Context) (more bool, err error) {
	b := w.gather()
	if len(b.messages) > 0 {
		err = w.forward(ctx, b)
	}
	return len(b.messages) > 0, errors.Join(err, w.commit(ctx))
}

func (w *waiters) forward(ctx context.Context, b batch) error {
	if err := w.s.recreate(ctx); err != nil {
		return err
	}
	errs := make([]error, len(b.messages))
	var ours, others []int
	for i, m := range b.messages {
		if slices.Contains(w.s.opt.Targets, m.Topic) {
			others = append(others, i)
		} else {
			ours = append(ours, i)
		}
	}
	messages := b.some(ours)
	for n, err := range w.s.produceAll(ctx, w.s.cl, messages) {
		if errs[ours[n]] = err; err != nil && w.s.hopeless(messages[n], err) {
			errs[ours[n]] = w.bury(ctx, messages[n], err)
		}
	}
	if len(others) > 0 {
		w.forwardOthers(ctx, b, others, errs)
	}
	return w.drop(b, errs)
}

// drop lets go of what was sent: of each queue the messages before the first that was not.
func (w *waiters) drop(b batch, errs []error) (failed error) {
	stuck := map[*queue]bool{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, q := range b.owners {
		if errs[i] != nil {
			stuck[q], failed = true, fmt.Errorf("forward from a delay level: %w", classify(errs[i]))
		}
		if !stuck[q] {
			w.passed(q)
		}
	}
	return failed
}

// bury sends a message to the dead letters whose retry topic is gone, because its consumer is, or
// which the topic of another producer does not take.
func (w *waiters) bury(ctx context.Context, m *kgo.Record, cause error) error {
	w.s.counters.Stray.Add(1)
	away := stray
	if slices.Contains(w.s.opt.Targets, m.Topic) {
		away = refused
	}
	return w.s.produce(ctx, []*kgo.Record{away(w.s.dlq(), m, fmt.Errorf("topic %s: %w", m.Topic, cause))})
}

// passed drops the head of a queue, whose message is durable elsewhere. The queue may have been
// taken away meanwhile.
func (w *waiters) passed(q *queue) {
	m := q.held[0]
	q.held, q.bytes = q.held[1:], q.bytes-len(m.Value)
	q.done, q.epoch = m.Offset+1, m.LeaderEpoch
	w.s.counters.Forwarded.Add(1)
	if w.s.opt.Late != nil {
		w.s.opt.Late(w.delays[m.Topic], w.s.opt.Now().Sub(w.due(m)))
	}
	if q.paused && len(q.held) < maxHeld/2 && q.bytes < maxHeldBytes/2 {
		q.paused = false
		w.cl.ResumeFetchPartitions(map[string][]int32{m.Topic: {m.Partition}})
	}
}

// commit commits what has been forwarded of the partitions that are still here.
func (w *waiters) commit(ctx context.Context) error {
	marks := map[*queue]int64{}
	commit := offsets{}
	w.mu.Lock()
	for p, q := range w.parts {
		if q.done == 0 {
			continue
		}
		if commit[p.topic] == nil {
			commit[p.topic] = map[int32]kgo.EpochOffset{}
		}
		commit[p.topic][p.n], marks[q] = kgo.EpochOffset{Epoch: q.epoch, Offset: q.done}, q.done
	}
	w.mu.Unlock()
	if len(commit) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	if err := commitOffsets(ctx, w.cl, commit); err != nil {
		return fmt.Errorf("delay levels: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for q, done := range marks {
		if q.done == done {
			q.done = 0
		}
	}
	return nil
}

const commitTime = 5 * time.Second // what a commit may take, a rebalance included
