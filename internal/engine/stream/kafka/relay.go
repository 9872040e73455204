package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/stream"
)

const (
	relayBatch = 500 // rows per read
	// The backoff of an outage: pauses are drawn from the upper half of a bound that doubles.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second // longest pause after repeated errors
)

// RunRelay sends the records of the outbox to Kafka until ctx is done, and retries after outages.
// It always returns nil. The caller must run it in one instance at a time, by a lease; a second one
// would send every record twice.
func (s *Stream) RunRelay(ctx context.Context) error {
	r := &relay{s: s, inFlight: map[rowID]struct{}{}, signal: make(chan struct{}, 1)}
	err := s.loop(ctx, "relay", r.once, func(ctx context.Context) {
		pause(ctx, s.opt.Backlog.Announced(), s.opt.RelayEvery)
	})
	_ = r.mark(ctx) // unmarked records are sent again
	return err
}

// loop calls once until ctx is done. After a call that reports no more work, it calls rest, which
// waits. An error of once is an outage: it is logged and once is called again after a growing
// pause. loop always returns nil. what names the loop in the log.
func (s *Stream) loop(ctx context.Context, what string, once func(context.Context) (more bool, err error), rest func(context.Context)) error {
	bound := firstPause
	var outage telemetry.Outage
	for ctx.Err() == nil {
		more, err := once(ctx)
		outage.Record(ctx, s.opt.Log, "stream loop paused by an outage; it retries", err, slog.String("loop", what))
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.counters.Errors.Add(1)
			pause(ctx, nil, bound/2+rand.N(bound/2))
			bound = min(2*bound, lastPause)
		default:
			bound = firstPause
			if !more {
				rest(ctx)
			}
		}
	}
	return nil
}

// pause waits for d, for a wake-up or for the end of ctx.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
}

// relay sends rows of the backlog. Rows in flight, given to the client and not acknowledged, are
// neither sent again nor waited for. An unavailable partition so delays only its own records, up to
// maxInFlight.
type relay struct {
	s        *Stream
	inFlight map[rowID]struct{} // rows passed to the client and without a processed result

	mu      sync.Mutex
	results []sendResult  // acknowledged or failed, not marked yet
	signal  chan struct{} // signals a new result
}

// rowID identifies a row of the backlog.
type rowID struct {
	retry  bool // a row of deliveries, not of the outbox
	offset int64
}

// sendResult is the result of sending a row.
type sendResult struct {
	stream.Unsent
	err error
}

// idOf returns the id of a row.
func idOf(u stream.Unsent) rowID { return rowID{u.Retry, u.Position.Offset} }

const (
	maxInFlight = 5000 // half of the client's buffer
	// ackIdle is the time without acknowledgements after which the acknowledged rows are marked. It
	// is far longer than a broker takes.
	ackIdle = 250 * time.Millisecond
)

// once sends a batch of unsent rows and marks the acknowledged ones. more reports that the batch
// was full, so that more rows may wait. If marking fails, the rows are sent again under the same
// event ids.
func (r *relay) once(ctx context.Context) (more bool, err error) {
	rows, err := r.unsent(ctx)
	if err == nil {
		err = r.send(ctx, rows)
	}
	r.waitForResults(ctx)
	return len(rows) >= relayBatch, errors.Join(err, r.mark(ctx))
}

// unsent reads up to relayBatch rows, in order, that are neither marked as sent nor in flight. It
// returns none and no error while maxInFlight rows are in flight.
func (r *relay) unsent(ctx context.Context) ([]stream.Unsent, error) {
	if len(r.inFlight) >= maxInFlight {
		return nil, nil
	}
	rows, err := r.s.opt.Backlog.Unsent(ctx, relayBatch+len(r.inFlight))
	return slices.DeleteFunc(rows, func(u stream.Unsent) bool {
		_, flies := r.inFlight[idOf(u)]
		return flies
	}), err
}

// send creates missing topics and passes rows to the client in order, without waiting for the
// brokers; each result arrives through addResult. The rows are in flight until then. If a topic
// cannot be created, it returns the error, and the client fails the rows of that topic.
func (r *relay) send(ctx context.Context, rows []stream.Unsent) error {
	specs := make([]topicSpec, len(rows))
	for i, u := range rows {
		specs[i] = r.s.target(u)
	}
	err := r.s.ensure(ctx, specs...)
	for _, u := range rows {
		m := newMessage(r.s.target(u).name, u.Key, u.Event)
		if u.Retry {
			m = retryMessage(r.s.target(u).name, u.Consumer, u.Delivery, stream.Failure{})
		}
		r.inFlight[idOf(u)] = struct{}{}
		r.s.own.produce(ctx, m, func(err error) { r.addResult(sendResult{u, err}) })
	}
	return err
}

// addResult stores the result of a send and wakes waitForResults. It does not block.
func (r *relay) addResult(l sendResult) {
	r.mu.Lock()
	r.results = append(r.results, l)
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// waitForResults waits until every row in flight has a result, no result arrives for ackIdle, or
// ctx ends. It processes no results.
func (r *relay) waitForResults(ctx context.Context) {
	for {
		r.mu.Lock()
		all := len(r.results) == len(r.inFlight)
		r.mu.Unlock()
		if all {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
		case <-time.After(ackIdle):
			return
		}
	}
}

// mark marks the acknowledged rows as sent, even if ctx has ended, for at most commitTime. Rows
// that failed to be sent are no longer in flight, so the next call of once sends them again. It
// returns the first error of sending and those of marking, joined.
func (r *relay) mark(ctx context.Context) (err error) {
	r.mu.Lock()
	all := r.results
	r.results = nil
	r.mu.Unlock()
	var sent []stream.Unsent
	for _, l := range all {
		delete(r.inFlight, idOf(l.Unsent))
		if l.err == nil {
			sent = append(sent, l.Unsent)
		} else if err == nil {
			err = fmt.Errorf("send a record of %s: %w", l.Topic, classify(l.err))
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	for part := range slices.Chunk(sent, relayBatch) {
		if failed := r.s.opt.Backlog.MarkSent(ctx, part); failed != nil {
			r.s.counters.Resent.Add(int64(len(part)))
			err = errors.Join(err, failed)
			continue
		}
		r.s.counters.Relayed.Add(int64(len(part)))
	}
	return err
}

// target returns the topic for a row. A retry without a valid consumer, such as the replay of an
// undecodable letter, goes to the dlq.
func (s *Stream) target(u stream.Unsent) topicSpec {
	switch {
	case u.Retry && (!validName(u.Consumer) || u.Topic.Types() == nil):
		return topicSpec{name: s.dlq(), retention: keepDead}
	case u.Retry:
		return s.retrySpec(u.Consumer, u.Topic)
	}
	return topicSpec{name: s.topic(u.Topic), retention: keepRecords}
}
