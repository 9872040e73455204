package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	return s.loop(ctx, "relay", s.relayOnce, func(ctx context.Context) {
		pause(ctx, s.opt.Backlog.Announced(), s.opt.RelayEvery)
	})
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
			s.opt.Log.WarnContext(ctx, "stream pauses", "loop", what, "pause", wait, "err", err)
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

// relayOnce sends a batch and marks what was acknowledged. If the mark cannot be set the batch is
// sent again: the broker has it twice then, under the same event ids.
func (s *Stream) relayOnce(ctx context.Context) (more bool, err error) {
	rows, err := s.opt.Backlog.Unsent(ctx, relayBatch)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	for _, u := range rows {
		if err := s.ensure(ctx, s.target(u)); err != nil {
			return false, err
		}
	}
	sent, sendErr := s.sendAll(ctx, rows)
	if len(sent) > 0 {
		mark, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
		defer cancel()
		if err := s.opt.Backlog.MarkSent(mark, sent); err != nil {
			s.counters.Resent.Add(int64(len(sent)))
			return false, errors.Join(sendErr, err)
		}
		s.counters.Relayed.Add(int64(len(sent)))
	}
	return len(rows) >= relayBatch, sendErr
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

// sendAll produces all rows in their order and returns those that were acknowledged.
func (s *Stream) sendAll(ctx context.Context, rows []stream.Unsent) (sent []stream.Unsent, err error) {
	messages := make([]*kgo.Record, len(rows))
	for i, u := range rows {
		if messages[i] = message(s.target(u).name, u.Key, u.Event); u.Retry {
			messages[i] = returning(s.target(u).name, u.Consumer, u.Delivery, stream.Failure{})
		}
	}
	errs := s.produceAll(ctx, s.cl, messages)
	for i, u := range rows {
		if errs[i] == nil {
			sent = append(sent, u)
		} else if err == nil {
			err = fmt.Errorf("send a record of %s: %w", u.Topic, classify(errs[i]))
		}
	}
	return sent, err
}
