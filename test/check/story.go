package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.org/smartdrive/test/history"
)

// story replays the log of one client and keeps all states that its files may be in.
type story struct {
	user, client string
	worlds       []world
	open         map[int64]history.Record // intents without an outcome yet, by op
	asked        map[string]bool          // paths that intents named
	broken       bool                     // contradictory: reported, and not checked further
}

// maxWorlds bounds the states that unsure changes multiply to. Clients look after each unsure
// change, so more states indicate a bug of the client.
const maxWorlds = 64

// tell applies one record. It fails if an acknowledged outcome or an observation is impossible in
// every world.
func (s *story) tell(r history.Record) error {
	if r.Phase == history.Intent {
		s.open[r.Op] = r
		for _, path := range []string{r.Path, r.To} {
			if path != "" {
				s.asked[path] = true
			}
		}
		return nil
	}
	if r.Phase == history.Seen {
		return s.keep(r, func(w world) (world, bool) { return w.agrees(r) })
	}
	intent, ok := s.open[r.Op]
	if !ok {
		return fmt.Errorf("op %d of %s ends without an intent", r.Op, s.client)
	}
	delete(s.open, r.Op)
	if intent.Node == "" {
		intent.Node = r.Node
	}
	switch {
	case r.Phase == history.Done && (intent.Appeared() || changesFiles(r.Do)):
		return s.keep(intent, func(w world) (world, bool) { return w.after(intent) })
	case r.Phase == history.Unsure:
		return s.split(intent)
	}
	return nil
}

// changesFiles reports whether an action changes existing files.
func changesFiles(do history.Action) bool {
	switch do {
	case history.Move, history.Trash, history.Delete, history.Restore, history.Purge:
		return true
	default:
		return false
	}
}

// keep replaces each world by next of it and drops worlds in which r is impossible. It fails if
// none remains.
func (s *story) keep(r history.Record, next func(world) (world, bool)) error {
	var kept []world
	for _, w := range s.worlds {
		if n, ok := next(w); ok {
			kept = append(kept, n)
		}
	}
	if len(kept) == 0 {
		return fmt.Errorf("op %d (%s %s of %s%s node %q) contradicts what was acknowledged before: %s", r.Op, r.Phase, r.Do, r.Path, r.Upload, r.Node, s.describe())
	}
	s.worlds = kept
	return nil
}

// split adds, for each world, the one in which an unsure change has happened.
func (s *story) split(r history.Record) error {
	if !r.MayAppear() && !changesFiles(r.Do) {
		return nil
	}
	for _, w := range slices.Clone(s.worlds) {
		if n, ok := w.after(r); ok {
			s.worlds = append(s.worlds, n)
		}
	}
	if len(s.worlds) > maxWorlds {
		return fmt.Errorf("client %s left more than %d states possible", s.client, maxWorlds)
	}
	return nil
}

// end treats the intents without an outcome as unsure.
func (s *story) end() error {
	for _, op := range slices.Sorted(maps.Keys(s.open)) {
		if err := s.split(s.open[op]); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) describe() string {
	all := make([]string, 0, len(s.worlds))
	for _, w := range s.worlds {
		all = append(all, "{"+w.describe()+"}")
	}
	return strings.Join(all, " or ")
}

// stories replays the logs and returns a story per client. It reports contradictions.
func (c *checker) stories(records []history.Record) map[string]*story {
	all := map[string]*story{}
	for _, r := range records {
		if r.Client == "" {
			continue
		}
		s := all[r.Client]
		if s == nil {
			s = &story{user: r.User, client: r.Client, worlds: []world{newWorld()}, open: map[int64]history.Record{}, asked: map[string]bool{}}
			all[r.Client] = s
		}
		if s.broken {
			continue
		}
		if err := s.tell(r); err != nil {
			c.found("log", "%v", err)
			s.broken = true
		}
	}
	for _, s := range all {
		if err := s.end(); err != nil && !s.broken {
			c.found("log", "%v", err)
			s.broken = true
		}
	}
	return all
}
