package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
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
	ids, err := s.topicIDs(ctx, log.name, retries.name)
	if err == nil {
		err = s.initCursor(ctx, sub, ids[log.name])
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", sub.Consumer, sub.Topic, err)
	}
	one := newSession(s, sub, log.name, retries.name)
	cl, err := s.join(s.group(sub.Consumer, sub.Topic), one, ids, log.name, retries.name)
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", sub.Consumer, sub.Topic, err)
	}
	one.start(cl)
	s.mu.Lock()
	s.open[one] = struct{}{}
	s.started[s.group(sub.Consumer, sub.Topic)] = true
	s.mu.Unlock()
	return one, nil
}

// initCursor commits the start offset for each partition without one, in the topic with the id. If
// the group has members, they have done so, and the broker's refusal is ignored. A group that
// exists without cursors lost them with its topic, so it starts at the beginning of the new topic.
func (s *Stream) initCursor(ctx context.Context, sub stream.Subscription, id kadm.TopicID) error {
	group, topic := s.group(sub.Consumer, sub.Topic), s.topic(sub.Topic)
	isNew := false
	if sub.Start == stream.FromEnd { // before the cursors are read: another instance may set them meanwhile
		var err error
		if isNew, err = s.isNewGroup(ctx, group); err != nil {
			return err
		}
	}
	have, err := s.admin.FetchOffsetsForTopics(ctx, group, topic)
	if err == nil {
		err = have.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return classify(err)
	}
	list := s.admin.ListStartOffsets
	if isNew {
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
			missing.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: o.Offset, LeaderEpoch: -1, Metadata: commitMetadata(id)})
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

// isNewGroup reports whether the brokers do not know the group and this process has not joined it.
// Brokers remove a group that stays empty without cursors.
func (s *Stream) isNewGroup(ctx context.Context, group string) (bool, error) {
	s.mu.Lock()
	started := s.started[group]
	s.mu.Unlock()
	if started {
		return false, nil
	}
	groups, err := s.admin.DescribeGroups(ctx, group)
	if err == nil {
		err = groups.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return true, nil
	}
	return groups[group].State == "Dead", classify(err)
}
