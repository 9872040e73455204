package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"example.org/smartdrive/internal/engine/stream"
)

var errNotQuiet = errors.New("not quiet")

// Quiet returns nil when no work is in flight: the backlog is sent, records of open sessions are
// buffered or polled, no record on a level is due, and every dead letter is imported. Otherwise the
// error names the work.
func (s *Stream) Quiet(ctx context.Context) error {
	if n, _, err := s.opt.Backlog.Waiting(ctx); err != nil || n > 0 {
		return fmt.Errorf("%w: %d unsent, %w", errNotQuiet, n, errors.Join(err))
	}
	for _, quiet := range []func(context.Context) error{s.levelsQuiet, s.sessionsQuiet, s.deadQuiet} {
		if err := quiet(ctx); err != nil {
			return err
		}
	}
	return nil
}

// WakeLevels makes the levels read the clock again after it was moved.
func (s *Stream) WakeLevels() {
	s.levels.mu.Lock()
	defer s.levels.mu.Unlock()
	for w := range s.levels.running {
		w.signal()
	}
}

// ends returns the end of each partition of a topic.
func (s *Stream) ends(ctx context.Context, topic string) (map[int32]int64, error) {
	listed, err := s.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	ends := map[int32]int64{}
	for n, o := range listed[topic] {
		ends[n] = o.Offset
	}
	return ends, err
}

// committed returns the committed offsets of a group in a topic, 0 where there is none.
func (s *Stream) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	have, err := s.admin.FetchOffsetsForTopics(ctx, group, topic)
	at := map[int32]int64{}
	for n, o := range have[topic] {
		at[n] = max(0, o.At)
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		err = nil
	}
	return at, err
}

func (s *Stream) levelsQuiet(ctx context.Context) error {
	held := map[levelPart]int64{}
	s.levels.mu.Lock()
	for w := range s.levels.running {
		w.mu.Lock()
		for p, q := range w.parts {
			held[p] = int64(len(q.waiting))
			if q.commitTo != 0 || len(q.waiting) > 0 && !w.due(q.waiting[0]).After(s.opt.Now()) {
				held[p] = -1
			}
		}
		w.mu.Unlock()
	}
	s.levels.mu.Unlock()
	for _, l := range s.opt.Levels {
		ends, err := s.ends(ctx, s.level(l))
		if err != nil {
			return err
		}
		at, err := s.committed(ctx, s.levelGroup(), s.level(l))
		if err != nil {
			return err
		}
		for n, end := range ends {
			if h, ok := held[levelPart{s.level(l), n}]; !ok || at[n]+h != end {
				return fmt.Errorf("%w: level %s/%d ends at %d, %d are committed, %d held (%v)", errNotQuiet, l.Name, n, end, at[n], h, ok)
			}
		}
	}
	return nil
}

func (s *Stream) sessionsQuiet(ctx context.Context) error {
	s.mu.Lock()
	var all []*session
	for one := range s.open {
		all = append(all, one)
	}
	s.mu.Unlock()
	for _, one := range all {
		for i, topic := range one.names {
			ends, err := s.ends(ctx, topic)
			if err != nil {
				return err
			}
			at, err := s.committed(ctx, s.group(one.sub.Consumer, one.sub.Topic), topic)
			if err != nil {
				return err
			}
			for n, end := range ends {
				if next := fetched(all, one.sub, part{i == 1, n}); next < 0 || max(next-1, at[n]) < end {
					return fmt.Errorf("%w: %s/%d ends at %d, %d are committed, %d-1 fetched", errNotQuiet, topic, n, end, at[n], next)
				}
			}
		}
	}
	return nil
}

// fetched returns what the session that holds a partition has fetched of it: 1 more than the next
// offset, 0 for nothing, -1 when no session holds it.
func fetched(all []*session, sub stream.Subscription, p part) int64 {
	for _, one := range all {
		if one.sub != sub {
			continue
		}
		if next, ok := one.nextOf(p); ok {
			return next + 1
		}
	}
	return -1
}

func (sess *session) nextOf(p part) (next int64, ok bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	t := sess.parts[p]
	if t == nil {
		return 0, false
	}
	return t.next, true
}

func (s *Stream) deadQuiet(ctx context.Context) error {
	ends, err := s.ends(ctx, s.dlq())
	if err != nil {
		return err
	}
	at, err := s.committed(ctx, s.dlqGroup(), s.dlq())
	if err != nil {
		return err
	}
	for n, end := range ends {
		if at[n] != end {
			return fmt.Errorf("%w: the dlq ends at %d, %d are committed", errNotQuiet, end, at[n])
		}
	}
	return nil
}

// DeleteTopics deletes the topics of the namespace.
func (s *Stream) DeleteTopics(ctx context.Context) error {
	s.mu.Lock()
	var names []string
	for name, t := range s.topics {
		if t.exists {
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	gone, err := s.admin.DeleteTopics(ctx, names...)
	return errors.Join(err, gone.Error())
}
