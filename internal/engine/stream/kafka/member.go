package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"example.org/smartdrive/internal/base/drive"
)

// member is a client in a group. It reads the topics with the ids that it was made for. If a topic
// is deleted and created again, which gives it another id, poll fails, and the caller must make
// another member.
//
// The broker stores a committed offset under the name of the topic. It deletes the offset with the
// topic, but a commit that arrives after the topic was created again is applied to the new topic,
// whose records would be skipped. So each commit names the id of its topic in its metadata, and an
// offset of another id counts as none.
type member struct {
	*kgo.Client
	s   *Stream
	ids map[string]kadm.TopicID // zero: the topic did not exist
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

// join returns a member of a group for the topics with the given ids. Rebalances happen only
// between polls, so no record of a revoked partition remains in use. Heartbeats are independent of
// polls: a paused consumer keeps its partitions.
func (s *Stream) join(group string, h partitionListener, ids map[string]kadm.TopicID, topics ...string) (*member, error) {
	m := &member{s: s, ids: ids}
	var valid map[string]map[int32]bool // offsets last fetched whose commit was for the topic's id
	cl, err := s.newClient(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		// A missing or expired cursor means the oldest record: repeating records is allowed, losing
		// them is not.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// The client calls the two functions one after the other, without another fetch in between.
		kgo.OnOffsetsFetched(func(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
			valid = m.valid(resp)
			return nil
		}),
		kgo.AdjustFetchOffsetsFn(func(_ context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			for topic, parts := range at {
				for n := range parts {
					if !valid[topic][n] {
						parts[n] = kgo.NewOffset().AtStart()
					}
				}
			}
			return at, nil
		}),
		kgo.SessionTimeout(s.opt.SessionTimeout), kgo.HeartbeatInterval(s.opt.SessionTimeout/10),
		kgo.RebalanceTimeout(2*s.opt.SessionTimeout),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPart),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.assigned(parts) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.revoked(parts) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { h.revoked(parts) }),
	)
	m.Client = cl
	return m, err
}

// topicIDs returns the present ids of the topics. A missing topic is noted for ensure and left out.
// If the broker forbids to describe one of them, it returns an error and no ids.
func (s *Stream) topicIDs(ctx context.Context, topics ...string) (map[string]kadm.TopicID, error) {
	details, err := s.admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("find the topics: %w", classify(err))
	}
	ids := map[string]kadm.TopicID{}
	for name, t := range details {
		switch {
		case t.Err == nil:
			ids[name] = t.ID
		case isMissing(t.Err):
			s.noteMissing(name)
		default:
			return nil, fmt.Errorf("find topic %s: %w", name, classify(t.Err))
		}
	}
	return ids, nil
}

// idPrefix begins the metadata of a commit. Earlier versions stored the id of the member there.
const idPrefix = "topic-id:"

// commitMetadata returns the metadata of a commit for a topic with the id.
func commitMetadata(id kadm.TopicID) string { return idPrefix + hex.EncodeToString(id[:]) }

// valid returns, by topic and partition, whether the committed offset belongs to the topic that m
// reads. It does not if the topic was deleted and created again since. Commits of earlier versions,
// which name no topic id, are accepted.
func (m *member) valid(resp *kmsg.OffsetFetchResponse) map[string]map[int32]bool {
	valid := map[string]map[int32]bool{}
	for _, group := range resp.Groups {
		for _, t := range group.Topics {
			name := t.Topic
			for known, id := range m.ids {
				if t.TopicID != (kadm.TopicID{}) && t.TopicID == id { // version 10 has no names
					name = known
				}
			}
			valid[name] = map[int32]bool{}
			for _, p := range t.Partitions {
				text := ""
				if p.Metadata != nil {
					text = *p.Metadata
				}
				valid[name][p.Partition] = p.Offset >= 0 && (!strings.HasPrefix(text, idPrefix) || text == commitMetadata(m.ids[name]))
			}
		}
	}
	return valid
}

// poll returns up to n records, as kgo.Client.PollRecords does. If a topic was deleted and created
// again since the member joined, its id differs from the one in m.ids; poll then returns the error
// UnknownTopicID in place of the topic's records.
func (m *member) poll(ctx context.Context, n int) kgo.Fetches {
	fetches := m.PollRecords(ctx, n)
	for _, f := range fetches {
		for _, t := range f.Topics {
			for i := range t.Partitions {
				if p := &t.Partitions[i]; len(p.Records) > 0 && t.TopicID != m.ids[t.Topic] {
					p.Records, p.Err = nil, errors.Join(p.Err, kerr.UnknownTopicID)
				}
				if isMissing(t.Partitions[i].Err) {
					m.s.noteMissing(t.Topic)
				}
			}
		}
	}
	return fetches
}

// offsets are offsets to commit, by topic and partition.
type offsets = map[string]map[int32]kgo.EpochOffset

// commit commits offsets of records that poll returned. It retries during a rebalance until ctx is
// done. If the client is no longer a member of the group, it fails with WrongState.
func (m *member) commit(ctx context.Context, commit offsets) error {
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for _, t := range req.Topics {
			for i := range t.Partitions {
				t.Partitions[i].Metadata = new(commitMetadata(m.ids[t.Topic]))
			}
		}
		return nil
	})
	for {
		var failed error
		m.CommitOffsetsSync(ctx, commit, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
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

// isMembership reports whether the broker refused a request because of the membership of the group.
func isMembership(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress)
}
