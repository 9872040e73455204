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

// Open creates missing topics and joins the consumer's group, whose first records arrive after it
// has assigned partitions (stream.Source). It fails with BadRequest for a consumer name that Kafka
// does not allow. The caller must close the session.
func (s *Stream) Open(ctx context.Context, sub stream.Subscription) (stream.Session, error) {
	if !validName(sub.Consumer) {
		return nil, drive.BadField("consumer", drive.Malformed, "expected", "letters, digits, '.', '_' and '-'", "sent", sub.Consumer)
	}
	log := topicSpec{name: s.topic(sub.Topic), retention: keepRecords}
	retries := s.retrySpec(sub.Consumer, sub.Topic)
	if err := s.ensure(ctx, log, retries); err != nil {
		return nil, err
	}
	if err := s.initCursor(ctx, sub); err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", sub.Consumer, sub.Topic, err)
	}
	one := newSession(s, sub, log.name, retries.name)
	cl, err := s.groupClient(s.group(sub.Consumer, sub.Topic), one, log.name, retries.name)
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", sub.Consumer, sub.Topic, err)
	}
	one.start(cl)
	s.mu.Lock()
	s.open[one] = struct{}{}
	s.mu.Unlock()
	return one, nil
}

// partitionListener is notified of partitions assigned to a group member and revoked from it.
type partitionListener interface {
	// assigned is called with the partitions, by topic, that the group gave to this member.
	assigned(parts map[string][]int32)
	// revoked is called with the partitions, by topic, that this member no longer has. It must not
	// commit their offsets afterwards.
	revoked(parts map[string][]int32)
}

const (
	fetchBytes = 8 << 20 // per fetch
	fetchPart  = 1 << 20 // per partition and fetch
)

// groupClient returns a client that is a member of a group. Rebalances happen only between polls,
// so no record of a revoked partition remains in use. Heartbeats are independent of polls: a paused
// consumer keeps its partitions.
func (s *Stream) groupClient(group string, h partitionListener, topics ...string) (*kgo.Client, error) {
	return kgo.NewClient(s.client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		// A missing or expired cursor means the oldest record: repeating records is allowed, losing
		// them is not.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(s.opt.SessionTimeout), kgo.HeartbeatInterval(s.opt.SessionTimeout/10),
		kgo.RebalanceTimeout(2*s.opt.SessionTimeout),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPart),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.assigned(parts) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.revoked(parts) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.revoked(parts) }),
	)...)
}

// initCursor commits the start offset for each partition without one. If the group has members,
// they have done so, and the broker's refusal is ignored.
func (s *Stream) initCursor(ctx context.Context, sub stream.Subscription) error {
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
