package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"smartdrive/internal/engine/stream"
)

const (
	relayBatch = 500
	// The pauses of an outage, each drawn from the upper half of its bound.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// RunRelay sends what the outbox holds until ctx is done. One instance does it at a time, by a
// lease; two would only send everything twice.
func (s *Stream) RunRelay(ctx context.Context) error {
	r := &relay{s: s, flying: map[rowID]struct{}{}, signal: make(chan struct{}, 1)}
	err := s.loop(ctx, "relay", r.once, func(ctx context.Context) {
		pause(ctx, s.opt.Backlog.Announced(), s.opt.RelayEvery)
	})
	_ = r.mark(ctx) // what is not marked is sent again
	return err
}

// loop calls once until ctx is done; more means at once, otherwise it rests. Outages are logged and
// waited out.
func (s *Stream) loop(ctx context.Context, what string, once func(context.Context) (more bool, err error), rest func(context.Context)) error {
	bound := firstPause
	for ctx.Err() == nil {
		more, err := once(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.counters.Errors.Add(1)
			wait := bound/2 + rand.N(bound/2)
			s.opt.Log.WarnContext(ctx, "stream pauses", "loop", what, "pause", wait, "error", err)
			pause(ctx, nil, wait)
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

// pause waits for d, for a wake-up, or for the end of ctx.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
}

// relay sends rows of the backlog. What was given to the client and is not acknowledged yet is
// flying: it is not given again, and is not waited for. So a partition that takes nothing, as its
// replicas are away, holds up what is for it and nothing else, as long as that is not more than
// maxFlying.
type relay struct {
	s      *Stream
	flying map[rowID]struct{}

	mu     sync.Mutex
	landed []landed // and not marked
	signal chan struct{}
}

type rowID struct {
	retry  bool
	offset int64
}

// landed is a row whose fate is known.
type landed struct {
	stream.Unsent
	err error
}

func idOf(u stream.Unsent) rowID { return rowID{u.Retry, u.Position.Offset} }

const (
	maxFlying = 5000 // half of what the client holds
	// flight is how long nothing may be acknowledged before what has been is marked: far longer
	// than a broker takes.
	flight = 250 * time.Millisecond
)

// once sends a batch and marks what was acknowledged. If the mark cannot be set the batch is sent
// again: the broker has it twice then, under the same event ids.
func (r *relay) once(ctx context.Context) (more bool, err error) {
	rows, err := r.fresh(ctx)
	if err == nil {
		err = r.send(ctx, rows)
	}
	r.settle(ctx)
	return len(rows) >= relayBatch, errors.Join(err, r.mark(ctx))
}

// fresh reads what is unsent and is not flying.
func (r *relay) fresh(ctx context.Context) ([]stream.Unsent, error) {
	if len(r.flying) >= maxFlying {
		return nil, nil
	}
	rows, err := r.s.opt.Backlog.Unsent(ctx, relayBatch+len(r.flying))
	return slices.DeleteFunc(rows, func(u stream.Unsent) bool {
		_, flies := r.flying[idOf(u)]
		return flies
	}), err
}

// send gives rows to the client, in their order.
func (r *relay) send(ctx context.Context, rows []stream.Unsent) error {
	for _, u := range rows {
		if err := r.s.ensure(ctx, r.s.target(u)); err != nil {
			return err
		}
	}
	for _, u := range rows {
		m := message(r.s.target(u).name, u.Key, u.Event)
		if u.Retry {
			m = returning(r.s.target(u).name, u.Consumer, u.Delivery, stream.Failure{})
		}
		r.flying[idOf(u)] = struct{}{}
		r.s.cl.Produce(ctx, m, func(_ *kgo.Record, err error) { r.land(landed{u, err}) })
	}
	return nil
}

func (r *relay) land(l landed) {
	r.mu.Lock()
	r.landed = append(r.landed, l)
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// settle waits until all that flies has landed, or nothing lands any more.
func (r *relay) settle(ctx context.Context) {
	for {
		r.mu.Lock()
		all := len(r.landed) == len(r.flying)
		r.mu.Unlock()
		if all {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
		case <-time.After(flight):
			return
		}
	}
}

// mark marks what was acknowledged, and lets go of what was not and has failed: it is sent again.
func (r *relay) mark(ctx context.Context) (err error) {
	r.mu.Lock()
	all := r.landed
	r.landed = nil
	r.mu.Unlock()
	var sent []stream.Unsent
	for _, l := range all {
		delete(r.flying, idOf(l.Unsent))
		if l.err == nil {
			sent = append(sent, l.Unsent)
			continue
		}
		r.s.noteMissing(r.s.target(l.Unsent).name, l.err)
		if err == nil {
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

// target is the topic that a row goes to. A retry that names nobody, such as the replay of a letter
// that was never readable, is a dead letter again.
func (s *Stream) target(u stream.Unsent) spec {
	switch {
	case u.Retry && (!legal(u.Consumer) || u.Topic.Types() == nil):
		return spec{name: s.dlq(), keep: keepDead}
	case u.Retry:
		return s.retrySpec(u.Consumer, u.Topic)
	}
	return spec{name: s.topic(u.Topic), keep: keepRecords}
}
