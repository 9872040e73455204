package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/engine/stream"
)

// RunDead moves the dead letters, which other tasks write to the topic dlq, into the database
// (DeadLetters) until ctx is done, so that one list shows and replays all. Several instances may
// run it concurrently. Outages are retried; it always returns nil.
func (s *Stream) RunDead(ctx context.Context) error {
	return s.loop(ctx, "dead letters", func(ctx context.Context) (bool, error) {
		if err := s.ensure(ctx, topicSpec{name: s.dlq(), retention: keepDead}); err != nil {
			return false, err
		}
		ids, err := s.topicIDs(ctx, s.dlq())
		if err != nil {
			return false, fmt.Errorf("read the dead letters: %w", err)
		}
		m, err := s.join(s.dlqGroup(), noTracking{}, ids, s.dlq())
		if err != nil {
			return false, fmt.Errorf("read the dead letters: %w", err)
		}
		defer m.CloseAllowingRebalance()
		for ctx.Err() == nil {
			if err := s.importDead(ctx, m); err != nil {
				return false, err // a new member starts at the committed offset
			}
		}
		return false, nil
	}, func(context.Context) {})
}

// noTracking is a partitionListener that does nothing: the marks in the DeadLetters tell which
// letters are imported.
type noTracking struct{}

// assigned does nothing.
func (noTracking) assigned(map[string][]int32) {}

// revoked does nothing.
func (noTracking) revoked(map[string][]int32) {}

// importBatch bounds the letters of one poll.
const importBatch = 200

// importDead polls once for up to importBatch messages of the dead letter topic, imports them into
// Options.DeadLetters, and then commits their offsets. If it fails in between, the next poll
// delivers them again, and Import must recognize them. It returns nil if ctx has ended.
func (s *Stream) importDead(ctx context.Context, from *member) error {
	fetches := from.poll(ctx, importBatch)
	defer from.AllowRebalance()
	if ctx.Err() != nil {
		return nil
	}
	var failed error
	fetches.EachError(func(_ string, _ int32, err error) { failed = errors.Join(failed, err) })
	if failed != nil {
		return fmt.Errorf("read the dead letters: %w", classify(failed))
	}
	id := from.ids[s.dlq()]
	log := s.dlq() + "/" + hex.EncodeToString(id[:]) // a recreated topic, whose offsets start again, has another id
	var err error
	commit := offsets{s.dlq(): {}}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if err != nil || len(p.Records) == 0 {
			return
		}
		letters := make([]stream.DrainedLetter, len(p.Records))
		for i, m := range p.Records {
			letters[i] = deadLetter(m)
		}
		if err = s.opt.DeadLetters.Import(ctx, log, letters); err == nil {
			s.counters.Drained.Add(int64(len(letters)))
			last := p.Records[len(p.Records)-1]
			commit[s.dlq()][p.Partition] = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
		}
	})
	if len(commit[s.dlq()]) > 0 {
		err = errors.Join(err, from.commit(ctx, commit))
	}
	return err
}
