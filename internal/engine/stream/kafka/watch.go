package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"smartdrive/internal/base/drive"
)

// A topic that somebody deletes while the program runs is made again as at a start, with what a
// new one has. A client keeps to the topic that it has seen, and takes one of the same name for an
// unknown one. So whoever has used it begins again, with a client that has not.
//
// A topic is gone that two looks have missed: in between a broker hears of what was just made.

// RunTopics makes topics again that are gone, until ctx is done. Every process needs it, for its
// own clients; who else makes a topic at the same time does not matter.
func (s *Stream) RunTopics(ctx context.Context) error {
	w := watch{s: s, ids: map[string]kadm.TopicID{}, missed: map[string]bool{}}
	return s.loop(ctx, "topics", w.once, func(ctx context.Context) { pause(ctx, nil, s.opt.WatchEvery) })
}

// watch is what RunTopics has seen.
type watch struct {
	s      *Stream
	ids    map[string]kadm.TopicID
	missed map[string]bool // by the last look
}

func (w *watch) once(ctx context.Context) (more bool, err error) {
	specs := w.s.used()
	if len(specs) == 0 {
		return false, nil
	}
	there, err := w.s.admin.ListTopics(ctx, slices.Collect(maps.Keys(specs))...)
	if err != nil {
		return false, fmt.Errorf("look at the topics: %w", classify(err))
	}
	var gone []spec
	for name, t := range specs {
		detail, ok := there[name]
		switch {
		case !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
			if w.missed[name] {
				gone = append(gone, t)
			}
			w.missed[name] = true
		case detail.Err != nil:
			err = errors.Join(err, fmt.Errorf("look at topic %s: %w", name, classify(detail.Err)))
		default:
			delete(w.missed, name)
			if old, seen := w.ids[name]; seen && old != detail.ID {
				w.s.renewed(name)
			}
			w.ids[name] = detail.ID
		}
	}
	return len(gone) > 0, errors.Join(err, w.again(ctx, gone))
}

// again makes topics again. The next look finds that they are others.
func (w *watch) again(ctx context.Context, gone []spec) error {
	if len(gone) == 0 {
		return nil
	}
	names := make([]string, len(gone))
	w.s.mu.Lock()
	for i, t := range gone {
		names[i] = t.name
		delete(w.s.known, t.name)
	}
	w.s.mu.Unlock()
	if err := w.s.ensure(ctx, gone...); err != nil {
		return err
	}
	for _, name := range names {
		delete(w.missed, name)
	}
	w.s.opt.Log.WarnContext(ctx, "topics were deleted, with what was on them, and are made again", "topics", names)
	return nil
}

// used returns the topics that this process has found or made, by name.
func (s *Stream) used() map[string]spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// user is a client that keeps to the topics that it has seen.
type user struct {
	topics []string
	again  func() // has it replaced
}

// using notes a client of topics, until stop is called.
func (s *Stream) using(again func(), topics ...string) (stop func()) {
	u := &user{topics, again}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[u] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.users, u)
	}
}

// renewed has all begin again that have used a topic which is another one by now. What the producer
// holds for it fails, and whoever sent it sends it again.
func (s *Stream) renewed(topic string) {
	s.cl.PurgeTopicsFromClient(topic)
	s.mu.Lock()
	var affected []*user
	for u := range s.users {
		if slices.Contains(u.topics, topic) {
			affected = append(affected, u)
		}
	}
	s.mu.Unlock()
	for _, u := range affected {
		u.again()
	}
}

// errRenewed ends a session whose topic is another one by now.
var errRenewed error = drive.Fail(drive.Unavailable, "reason", "a topic was deleted and made again")
