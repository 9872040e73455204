package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"example.org/smartdrive/internal/engine/stream"
)

// Lags returns the lag of each consumer. Offsets counts records of the topic and the retry topic.
// Waiting, in the first element, counts the records on the delay levels of all consumers.
func (s *Stream) Lags(ctx context.Context) ([]stream.Lag, error) {
	subs := s.opt.Consumers
	groups := make([]string, 0, len(subs)+1)
	for _, sub := range subs {
		groups = append(groups, s.group(sub.Consumer, sub.Topic))
	}
	groups = append(groups, s.levelGroup())
	lags, err := s.admin.Lag(ctx, groups...)
	if err != nil {
		return nil, fmt.Errorf("read the lag of the consumers: %w", classify(err))
	}
	all := make([]stream.Lag, 0, len(groups))
	for i, sub := range subs {
		n, err := total(lags, groups[i])
		if err != nil {
			return nil, err
		}
		all = append(all, stream.Lag{Consumer: sub.Consumer, Topic: sub.Topic, Offsets: n})
	}
	n, err := total(lags, s.levelGroup())
	if len(all) > 0 {
		all[0].Waiting = n
	}
	return all, err
}

// total returns the number of messages that a group has not committed, over all its partitions; 0
// for a group that is not in lags or has had no member. It fails with the error that the brokers
// report for the group.
func total(lags kadm.DescribedGroupLags, group string) (n int64, err error) {
	l, ok := lags[group]
	if !ok {
		return 0, nil
	}
	err = l.Error()
	if errors.Is(err, kerr.GroupIDNotFound) { // no member has joined yet
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the lag of group %s: %w", group, classify(err))
	}
	for _, parts := range l.Lag {
		for _, p := range parts {
			n += max(0, p.Lag)
		}
	}
	return n, nil
}

// Waiting returns the number of records fetched from delay levels by this process, and by how much
// the first of them is overdue.
func (s *Stream) Waiting() (n int, overdue time.Duration) {
	s.levels.mu.Lock()
	defer s.levels.mu.Unlock()
	for w := range s.levels.running {
		w.mu.Lock()
		for _, q := range w.parts {
			if n += len(q.waiting); len(q.waiting) > 0 {
				overdue = max(overdue, s.opt.Now().Sub(w.due(q.waiting[0])))
			}
		}
		w.mu.Unlock()
	}
	return n, overdue
}
