package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
)

// Open implements stream.Source: the session is a member of the consumer's group. Its first records
// come once the group has dealt out the partitions.
func (s *Stream) Open(ctx context.Context, sub stream.Subscription) (stream.Session, error) {
	if !legal(sub.Consumer) {
		return nil, drive.Bad("consumer", drive.Malformed, "expected", "letters, digits, '.', '_' and '-'", "sent", sub.Consumer)
	}
	log := spec{name: s.topic(sub.Topic), keep: keepRecords}
	retries := s.retrySpec(sub.Consumer, sub.Topic)
	if err := s.ensure(ctx, log, retries); err != nil {
		return nil, err
	}
	if err := s.findCursor(ctx, sub); err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", sub.Consumer, sub.Topic, err)
	}
	one := newSession(s, sub, log.name, retries.name)
	cl, err := s.member(s.group(sub.Consumer, sub.Topic), one, log.name, retries.name)
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", sub.Consumer, sub.Topic, err)
	}
	one.start(cl)
	s.mu.Lock()
	s.open[one] = struct{}{}
	s.mu.Unlock()
	return one, nil
}

// holder keeps track of the partitions that a member of a group has.
type holder interface {
	assigned(parts map[string][]int32)
	revoked(parts map[string][]int32)
}

const (
	fetchBytes = 8 << 20 // of one answer
	fetchPart  = 1 << 20 // of one partition in it
)

// member makes a client that is in a group. Partitions are dealt out again only between polls, so
// that nothing of a partition that was taken away is kept. Heartbeats do not depend on polls: a
// consumer that waits out an outage stays.
func (s *Stream) member(group string, h holder, topics ...string) (*kgo.Client, error) {
	return kgo.NewClient(s.client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		// A cursor that is gone, or behind what is kept: from the oldest record on. Repeating is
		// allowed, losing is not.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(s.opt.SessionTimeout), kgo.HeartbeatInterval(s.opt.SessionTimeout/10),
		kgo.RebalanceTimeout(2*s.opt.SessionTimeout),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPart),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.assigned(parts) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.revoked(parts) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.revoked(parts) }),
	)...)
}

// findCursor makes the cursor of a new consumer: an offset committed for each partition that has
// none. Where the group has members they have made it, and the broker refuses ours.
func (s *Stream) findCursor(ctx context.Context, sub stream.Subscription) error {
	group, topic := s.group(sub.Consumer, sub.Topic), s.topic(sub.Topic)
	have, err := s.admin.FetchOffsetsForTopics(ctx, group, topic)
	if err == nil {
		err = have.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return classify(err)
	}
	list := s.admin.ListStartOffsets
	if sub.Start == stream.FromEnd {
		list = s.admin.ListEndOffsets
	}
	begin, err := list(ctx, topic)
	if err == nil {
		err = begin.Error()
	}
	if err != nil {
		return classify(err)
	}
	var missing kadm.Offsets
	begin.Each(func(o kadm.ListedOffset) {
		if at, ok := have.Lookup(o.Topic, o.Partition); !ok || at.At < 0 {
			missing.AddOffset(o.Topic, o.Partition, o.Offset, -1)
		}
	})
	if len(missing) == 0 {
		return nil
	}
	committed, err := s.admin.CommitOffsets(ctx, group, missing)
	if err == nil {
		err = committed.Error()
	}
	if isMembership(err) {
		return nil
	}
	return classify(err)
}
