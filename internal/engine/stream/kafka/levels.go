package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
)

// levelState holds the running levelRunners, for Waiting.
type levelState struct {
	mu      sync.Mutex
	running map[*levelRunner]struct{}
}

// RunLevels forwards the records whose delay is over, until ctx is done. Several instances may run
// it concurrently; the consumer group distributes the partitions.
//
// All records of a level wait for the same time after the broker appended them, so the first record
// of a partition is always the first due. The first records of each partition are fetched and kept
// until due; fetching from a partition pauses at a limit. A timer runs to the first due time. All
// due records then go to their retry topics in one batch, and their offsets are committed
// afterwards.
func (s *Stream) RunLevels(ctx context.Context) error {
	w := &levelRunner{s: s, delays: map[string]stream.Level{}, parts: map[levelPart]*queue{}, wake: make(chan struct{}, 1), unavailableUntil: map[string]time.Time{}}
	var topics []string
	for _, l := range s.opt.Levels {
		w.delays[s.level(l)] = l
		topics = append(topics, s.level(l))
	}
	err := s.loop(ctx, "levels", func(ctx context.Context) (bool, error) {
		var specs []topicSpec
		for _, l := range s.opt.Levels {
			specs = append(specs, s.levelSpec(l))
		}
		missing := s.ensure(ctx, append(specs, topicSpec{name: s.dlq(), retention: keepDead})...)
		ids := map[string]kadm.TopicID{}
		var err error
		for _, topic := range topics { // one request each: the broker may forbid one of them
			one, failed := s.topicIDs(ctx, topic)
			maps.Copy(ids, one)
			err = errors.Join(err, failed)
		}
		if err != nil && len(ids) == 0 {
			return false, fmt.Errorf("read the delay levels: %w", errors.Join(missing, err))
		}
		s.warnMissing(ctx, errors.Join(missing, err)) // the other levels go on
		cl, err := s.join(s.levelGroup(), w, ids, topics...)
		if err != nil {
			return false, fmt.Errorf("read the delay levels: %w", err)
		}
		return true, w.run(ctx, cl)
	}, func(context.Context) {})
	return err
}

// levelRunner forwards the records of the delay levels in this process.
type levelRunner struct {
	s      *Stream
	cl     *member
	delays map[string]stream.Level // levels by topic
	wake   chan struct{}           // signals that records were fetched

	unavailableUntil map[string]time.Time // unavailable topics of other producers, and the time of their next attempt

	mu    sync.Mutex
	parts map[levelPart]*queue // assigned partitions
}

// levelPart identifies a partition of a level.
type levelPart struct {
	topic string
	n     int32
}

// queue holds the fetched records of a partition in order.
type queue struct {
	waiting  []*kgo.Record // fetched and not forwarded yet
	bytes    int           // size of waiting
	paused   bool          // fetching is paused because too much waits
	commitTo int64         // offset to commit; 0 = none
	epoch    int32         // leader epoch of commitTo
}

const (
	maxHeld      = 4000    // records per partition
	maxHeldBytes = 4 << 20 // per partition
	maxForward   = 5000    // records per batch
)

// run forwards due records of the retry levels until ctx is done or a level is missing, then leaves
// the group and closes cl. Records that are not committed are forwarded again by the next member.
// It returns the error of the missing level, if any.
func (r *levelRunner) run(ctx context.Context, cl *member) error {
	r.mu.Lock()
	r.cl = cl // partitions may already be assigned
	r.mu.Unlock()
	r.register(true)
	defer r.register(false)
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	var missing error
	fetching.Go(func() {
		defer cancel()
		missing = r.fetch(ctx)
	})
	_ = r.s.loop(ctx, "forward", r.forwardOnce, func(ctx context.Context) { pause(ctx, r.wake, r.wait()) })
	cancel()
	fetching.Wait()
	cl.CloseAllowingRebalance()
	r.mu.Lock()
	clear(r.parts)
	r.mu.Unlock()
	return missing
}

// register adds the runner to those whose records Waiting counts, or removes it if on is false.
func (r *levelRunner) register(on bool) {
	state := &r.s.levels
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.running == nil {
		state.running = map[*levelRunner]struct{}{}
	}
	if on {
		state.running[r] = struct{}{}
	} else {
		delete(state.running, r)
	}
}

// fetch fetches records until ctx is done. After an error it pauses with backoff, which also delays
// other levels: a level that the broker forbids to read fails every poll at once. If a level was
// deleted, it returns the error.
func (r *levelRunner) fetch(ctx context.Context) error {
	bound, failed := firstPause, time.Time{}
	for ctx.Err() == nil {
		fetches := r.cl.poll(ctx, maxHeld)
		err := r.addFetched(fetches)
		r.cl.AllowRebalance()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if isMissing(err) {
			return err
		}
		if time.Since(failed) > 2*lastPause {
			bound = firstPause
		}
		r.s.counters.Errors.Add(1)
		r.s.opt.Log.WarnContext(ctx, "fetching the delay levels failed; retrying after a pause", "pause", bound, "error", err)
		pause(ctx, nil, bound)
		bound, failed = min(2*bound, lastPause), time.Now()
	}
	return nil
}

// addFetched stores fetched records and returns an error of one partition, if any, preferably of a
// missing level. It must be called before AllowRebalance.
func (r *levelRunner) addFetched(fetches kgo.Fetches) (failed error) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if failed == nil || isMissing(err) {
			failed = fmt.Errorf("partition %d of %s: %w", partition, topic, err)
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachRecord(func(m *kgo.Record) {
		if q := r.parts[levelPart{m.Topic, m.Partition}]; q != nil {
			q.waiting, q.bytes = append(q.waiting, m), q.bytes+len(m.Value)
		}
	})
	for p, q := range r.parts {
		if !q.paused && (len(q.waiting) >= maxHeld || q.bytes >= maxHeldBytes) {
			q.paused = true
			r.cl.PauseFetchPartitions(map[string][]int32{p.topic: {p.n}})
		}
	}
	r.signal()
	return failed
}

// signal wakes the forwarding loop. It never blocks; several signals may wake it once.
func (r *levelRunner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// assigned adds a queue for each partition that the group assigned to this process
// (partitionListener).
func (r *levelRunner) assigned(parts map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, list := range parts {
		for _, n := range list {
			r.parts[levelPart{topic, n}] = &queue{}
		}
	}
}

// revoked removes the partitions that the group took from this process, with their waiting records
// and without committing; the next owner forwards these (partitionListener).
func (r *levelRunner) revoked(parts map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, list := range parts {
		for _, n := range list {
			delete(r.parts, levelPart{topic, n})
			r.s.counters.Moved.Add(1)
		}
	}
	if r.cl != nil {
		r.cl.ResumeFetchPartitions(parts) // a partition that returns must not be paused
	}
}

// due returns the time at which a record may be forwarded. One millisecond is added because the
// broker truncates its time to milliseconds.
func (r *levelRunner) due(m *kgo.Record) time.Time {
	return r.s.opt.ConvertTimestamp(m.Timestamp).Add(r.delays[m.Topic].Delay + time.Millisecond)
}

// wait returns the time until the first record is due: 0 if one is overdue, and an hour if none is
// nearer or there is none.
func (r *levelRunner) wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := time.Hour
	for _, q := range r.parts {
		if len(q.waiting) > 0 {
			first = min(first, r.due(q.waiting[0]).Sub(r.s.opt.Now()))
		}
	}
	return max(first, 0)
}

// batch holds the due records at the head of each partition. The three slices have the same length.
type batch struct {
	messages []*kgo.Record // to be produced, in order per partition
	owners   []*queue      // queue of each message
	sources  []*kgo.Record // record that each message was made from
}

// subset returns the messages with the given indexes in the batch, in the order of numbers.
func (b batch) subset(numbers []int) []*kgo.Record {
	messages := make([]*kgo.Record, len(numbers))
	for n, i := range numbers {
		messages[n] = b.messages[i]
	}
	return messages
}

// dueBatch collects the records that are due, up to maxForward and in order per partition. It
// leaves them in their queues; an empty batch means that none is due.
func (r *levelRunner) dueBatch() batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b batch
	now := r.s.opt.Now()
	for _, q := range r.parts {
		for _, m := range q.waiting {
			if len(b.messages) >= maxForward || r.due(m).After(now) {
				break
			}
			b.messages = append(b.messages, r.outgoing(m))
			b.owners, b.sources = append(b.owners, q), append(b.sources, m)
		}
	}
	return b
}

// outgoing returns the message to send for a due record: to the retry topic of its consumer, or to
// the target topic of another producer. If the record names neither or is damaged, the message goes
// to the dead letters and counts as stray. It sends nothing.
func (r *levelRunner) outgoing(m *kgo.Record) *kgo.Record {
	consumer, topic := header(m, headerConsumer), stream.Topic(header(m, headerTopic))
	if consumer == "" && topic == "" {
		out, err := r.s.decodeForeign(m)
		if err != nil {
			r.s.counters.Stray.Add(1)
			return rejectedForeign(r.s.dlq(), m, err)
		}
		return out
	}
	if !validName(consumer) || topic.Types() == nil {
		r.s.counters.Stray.Add(1)
		return strayLetter(r.s.dlq(), m, drive.Wrap(fmt.Errorf("it names no consumer that there is: %.100q of topic %.100q", consumer, topic), drive.BadRequest))
	}
	return forwarded(r.s.retry(consumer, topic), m)
}

// forwardOnce sends the due records and commits their offsets. more reports whether any record was
// due. After a failed commit, only another process that is assigned the partition sends the records
// again.
func (r *levelRunner) forwardOnce(ctx context.Context) (more bool, err error) {
	b := r.dueBatch()
	if len(b.messages) > 0 {
		err = r.forward(ctx, b)
	}
	return len(b.messages) > 0, errors.Join(err, r.commit(ctx))
}

// forward sends a batch and drops the sent records from their queues. Messages that their topic
// rejects go to the dead letters, and those whose topic was deleted to the first delay level. It
// returns an error if a record was not sent; that record and those behind it in its partition stay.
func (r *levelRunner) forward(ctx context.Context, b batch) error {
	errs := make([]error, len(b.messages))
	var ours, others []int
	for i, m := range b.messages {
		if slices.Contains(r.s.opt.Targets, m.Topic) {
			others = append(others, i)
		} else {
			ours = append(ours, i)
		}
	}
	messages := b.subset(ours)
	for n, err := range r.s.own.produceAll(ctx, messages) {
		if errs[ours[n]] = err; err != nil && r.s.isPermanent(messages[n], err) {
			errs[ours[n]] = r.sendToDLQ(ctx, messages[n], err)
		}
	}
	if len(others) > 0 {
		r.forwardForeign(ctx, b, others, errs)
	}
	var later []int
	for i, err := range errs {
		if isMissing(err) {
			later = append(later, i)
		}
	}
	r.postpone(ctx, b, later, errs)
	return r.dropSent(b, errs)
}

// postpone returns the messages of a batch with the given numbers to the first level, so that they
// do not block other messages, and stores each result in errs.
func (r *levelRunner) postpone(ctx context.Context, b batch, later []int, errs []error) {
	again := make([]*kgo.Record, len(later))
	for n, i := range later {
		again[n] = forwarded(r.s.level(r.s.opt.Levels[0]), b.sources[i])
	}
	for n, err := range r.s.own.produceAll(ctx, again) {
		errs[later[n]] = err
	}
}

// dropSent drops, in each queue, the sent messages before the first failed one. errs holds the
// result of each message.
func (r *levelRunner) dropSent(b batch, errs []error) (failed error) {
	stuck := map[*queue]bool{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, q := range b.owners {
		if errs[i] != nil {
			stuck[q], failed = true, fmt.Errorf("forward from a delay level: %w", classify(errs[i]))
		}
		if !stuck[q] {
			r.dropHead(q)
		}
	}
	return failed
}

// sendToDLQ sends a message to the dead letters, because its topic does not exist or rejects it,
// and waits for the acknowledgment. It fails if the broker does not acknowledge it.
func (r *levelRunner) sendToDLQ(ctx context.Context, m *kgo.Record, cause error) error {
	r.s.counters.Stray.Add(1)
	makeLetter := strayLetter
	if slices.Contains(r.s.opt.Targets, m.Topic) {
		makeLetter = rejectedForeign
	}
	return r.s.produce(ctx, []*kgo.Record{makeLetter(r.s.dlq(), m, fmt.Errorf("topic %s: %w", m.Topic, cause))})
}

// dropHead drops the first record of a queue after its message became durable, notes the offset to
// be committed, and resumes fetching if the queue is short. The partition may have been revoked
// meanwhile. The caller holds r.mu.
func (r *levelRunner) dropHead(q *queue) {
	m := q.waiting[0]
	q.waiting, q.bytes = q.waiting[1:], q.bytes-len(m.Value)
	q.commitTo, q.epoch = m.Offset+1, m.LeaderEpoch
	r.s.counters.Forwarded.Add(1)
	if r.s.opt.OnForward != nil {
		r.s.opt.OnForward(r.delays[m.Topic], r.s.opt.Now().Sub(r.due(m)))
	}
	if q.paused && len(q.waiting) < maxHeld/2 && q.bytes < maxHeldBytes/2 {
		q.paused = false
		r.cl.ResumeFetchPartitions(map[string][]int32{m.Topic: {m.Partition}})
	}
}

// commit commits the offsets of the forwarded records in the partitions still assigned, and then
// clears their marks, unless more were forwarded meanwhile. After an error the marks stay for the
// next call. It does not end with ctx, but within commitTime.
func (r *levelRunner) commit(ctx context.Context) error {
	marks := map[*queue]int64{}
	commit := offsets{}
	r.mu.Lock()
	for p, q := range r.parts {
		if q.commitTo == 0 {
			continue
		}
		if commit[p.topic] == nil {
			commit[p.topic] = map[int32]kgo.EpochOffset{}
		}
		commit[p.topic][p.n], marks[q] = kgo.EpochOffset{Epoch: q.epoch, Offset: q.commitTo}, q.commitTo
	}
	r.mu.Unlock()
	if len(commit) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	if err := r.cl.commit(ctx, commit); err != nil {
		return fmt.Errorf("delay levels: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for q, done := range marks {
		if q.commitTo == done {
			q.commitTo = 0
		}
	}
	return nil
}

const commitTime = 5 * time.Second // bound for a commit, including a rebalance
