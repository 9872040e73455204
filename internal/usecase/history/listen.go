package history

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/activity"
)

// Hint says that something happened, and where: whoever wants to know what asks.
type Hint struct {
	Account drive.AccountID `json:"account_id" doc:"the drive or space that it happened in"`
	Kinds   []string        `json:"kinds" doc:"what it was about: what types begin with, such as node; access: what is shared with the caller, or what the caller may do there, is different"`
	Folders []drive.NodeID  `json:"folders" doc:"in which folders something is different, as far as they are known; empty with many"`
	Many    bool            `json:"many" doc:"too much to be listed: it may be any folder"`
}

const (
	hintPage     = 200              // entries that are read at once
	hintPages    = 5                // pages for one hint, of what a guest sees
	mostFolders  = 50               // of a hint
	mostSources  = 200              // accounts that one listener hears of
	lookAgain    = 30 * time.Second // how often it is looked which accounts these are, where anybody's roles have changed
	resumeBehind = 1000             // positions: entries of different accounts do not commit in the order of their numbers
)

// Listener waits for what happens where its caller may see it. It is for one goroutine. It keeps a
// position for each account, and nothing of what happened.
type Listener struct {
	h       *History
	who     drive.Who
	watch   *activity.Watch
	sources map[drive.AccountID]*source
	top     activity.Position
	stamp   access.Stamp // for which the sources were looked up
	known   bool
	looked  time.Time
}

// source is an account that a listener hears of.
type source struct {
	seer  seer
	told  view         // of which the caller has heard
	node  drive.NodeID // by which the caller gets in
	at    activity.Position
	stamp access.Stamp
	fresh bool // the seer holds for the stamp
}

// view is what a caller sees of an account, and may do there.
type view struct {
	all    bool
	rights access.Right
	lens   string
}

func (s *source) view() view {
	return view{s.seer.all, s.seer.pass.Rights, s.seer.lens.Sum()}
}

// Listen begins to listen. after is what Cursor said before, or empty. reset says that it is not
// known what happened since then: whoever listens looks at everything. Close must follow.
func (h *History) Listen(ctx context.Context, who drive.Who, after string) (l *Listener, hints []Hint, reset bool, err error) {
	l = &Listener{h: h, who: who, sources: map[drive.AccountID]*source{}}
	oldest, newest, err := h.parts.Log.Span(ctx, h.parts.DB)
	if err != nil {
		return nil, nil, false, err
	}
	l.top = newest
	if _, err := l.look(ctx); err != nil {
		return nil, nil, false, err
	}
	if after == "" {
		return l, nil, false, nil
	}
	from, ok := heardUpTo(after)
	if !ok || from > newest || from < oldest-1 || newest-from > hintPage*hintPages {
		return l, nil, true, nil
	}
	from = max(0, from-resumeBehind)
	for id, s := range l.sources {
		s.at = min(s.at, from)
		hint, err := l.read(ctx, id, s)
		if err != nil {
			l.Close()
			return nil, nil, false, err
		}
		hints = append(hints, hint...)
	}
	return l, hints, false, nil
}

// heardUpTo reads what Cursor says.
func heardUpTo(cursor string) (activity.Position, bool) {
	n, err := strconv.ParseInt(cursor, 10, 64)
	return activity.Position(n), err == nil && n >= 0
}

// Close ends the listening.
func (l *Listener) Close() { l.watch.Close() }

// Ready gets a value when Next has something to look at.
func (l *Listener) Ready() <-chan struct{} { return l.watch.Ready }

// Cursor is how far the listener has heard: what Listen takes up again.
func (l *Listener) Cursor() string { return strconv.FormatInt(int64(l.top), 10) }

// Next returns what happened since it was called last. It is called when Ready says so, and now and
// then: what others share with the caller is noticed then.
func (l *Listener) Next(ctx context.Context) (hints []Hint, err error) {
	dirty := l.watch.Take()
	if now, known := l.h.parts.Access.Stamp(); (!known || !l.known || now != l.stamp) && time.Since(l.looked) >= lookAgain {
		other, err := l.look(ctx)
		if err != nil {
			return nil, err
		}
		if other {
			hints = append(hints, l.otherAccess())
		}
	}
	for id, s := range l.sources { // a role that ends by its time changes nothing that is noticed
		if s.isOver() && !slices.Contains(dirty, id) {
			dirty = append(dirty, id)
		}
	}
	for _, id := range dirty {
		s := l.sources[id]
		if s == nil {
			continue
		}
		hint, err := l.read(ctx, id, s)
		if err != nil {
			return hints, err
		}
		hints = append(hints, hint...)
	}
	return hints, nil
}

// look finds out which accounts the caller may see something of, and reports whether that is
// different from what it was.
func (l *Listener) look(ctx context.Context) (other bool, err error) {
	stamp, known := l.h.parts.Access.Stamp() // before it is asked
	found := map[drive.AccountID]*source{l.who.Account: {seer: seer{pass: access.Pass{Who: l.who, Rights: access.All}, all: true}}}
	db := l.h.parts.DB
	spaces, err := l.h.parts.Access.ListMemberships(ctx, db, l.who.User)
	if err != nil {
		return false, err
	}
	add := func(account drive.AccountID, node drive.NodeID) error {
		if found[account] != nil || len(found) >= mostSources {
			return nil
		}
		s := &source{node: node}
		in, err := l.enter(ctx, s)
		if err == nil && in {
			found[account] = s
		}
		return err
	}
	for _, m := range spaces {
		if err := add(m.ID, m.Root); err != nil {
			return false, err
		}
	}
	mounts, err := l.h.parts.Access.ListMine(ctx, db, l.who.User, drive.NodeID{}, mostSources, true)
	if err != nil {
		return false, err
	}
	for _, m := range mounts {
		if err := add(m.Account, m.Node); err != nil {
			return false, err
		}
	}
	// First who wakes, then from where on: what is committed between the two is read twice at most.
	watch := l.h.parts.Log.Watch(slices.Collect(maps.Keys(found))...)
	heads, err := l.h.parts.Log.Heads(ctx, db, slices.Collect(maps.Keys(found)))
	if err != nil {
		watch.Close()
		return false, err
	}
	for id, s := range found {
		if s.at = heads[id]; l.sources[id] != nil {
			s.at = l.sources[id].at
		}
		s.told = s.view()
		other = other || l.sources[id] == nil || l.sources[id].told != s.told
	}
	other = other || len(found) != len(l.sources)
	if l.watch != nil {
		l.watch.Close()
	}
	l.watch, l.sources, l.stamp, l.known, l.looked = watch, found, stamp, known, time.Now()
	for id, s := range found { // what came between the two watches
		if heads[id] > s.at {
			watch.Wake(id)
		}
	}
	return other, nil
}

// enter asks what the caller sees by way of a source; false: nothing any more.
func (l *Listener) enter(ctx context.Context, s *source) (bool, error) {
	if s.node.IsZero() { // one's own drive
		return true, nil
	}
	s.stamp, s.fresh = l.h.parts.Access.Stamp()
	pass, err := l.h.parts.Access.Enter(ctx, l.h.parts.DB, l.who, s.node, access.Look)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.seer = seer{pass: pass, all: !pass.Who.Guest || pass.All}
	if !s.seer.all {
		s.seer.lens, err = l.h.parts.Access.Lens(ctx, l.h.parts.DB, pass)
	}
	return true, err
}

// isOver reports whether a role that lets the caller see has come to its end, which no change
// tells.
func (s *source) isOver() bool {
	until := s.seer.pass.Until
	return until != 0 && until <= drive.TimeOf(time.Now())
}

// hinted are the kinds that hints tell of: all but uploads and downloads, of which there are many.
func hinted() (kinds []string) {
	for _, v := range activity.Verbs() {
		kind, _, _ := strings.Cut(string(v), ".")
		if kind != "upload" && kind != "download" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// read makes a hint of what happened in an account since the position of its source, if the caller
// may see anything of it.
func (l *Listener) read(ctx context.Context, account drive.AccountID, s *source) (hints []Hint, err error) {
	if now, known := l.h.parts.Access.Stamp(); !known || !s.fresh || now != s.stamp || s.isOver() {
		in, err := l.enter(ctx, s)
		if err != nil {
			return nil, err
		}
		if !in { // by this way; there may be another one
			delete(l.sources, account)
			l.known = false
			return []Hint{l.otherAccess()}, nil
		}
		if now := s.view(); now != s.told {
			s.told = now
			hints = append(hints, l.otherAccess())
		}
	}
	h := gathered{hint: Hint{Account: account}}
	q := l.h.parts.DB.For(account)
	for range hintPages {
		some, err := l.h.parts.Log.After(ctx, q, account, s.at, hintPage)
		if err != nil {
			return nil, err
		}
		if len(some) > 0 {
			s.at = some[len(some)-1].ID
		}
		seen, err := l.h.visible(ctx, q, s.seer, Query{Types: hinted()}, some)
		if err != nil {
			return nil, err
		}
		if err := h.add(ctx, l, s, seen); err != nil {
			return nil, err
		}
		if len(some) < hintPage {
			break
		}
		if s.seer.all { // the rest would say no more than that it is much
			h.hint.Many = true
			if s.at, err = l.h.parts.Log.Head(ctx, q, account); err != nil {
				return nil, err
			}
			break
		}
		l.watch.Wake(account) // the rest, if there is any, is for the next time
	}
	l.top = max(l.top, s.at)
	return append(hints, h.done()...), nil
}

// otherAccess is the hint that the caller may see or do something else than before.
func (l *Listener) otherAccess() Hint {
	return Hint{Account: l.who.Account, Kinds: []string{"access"}, Folders: []drive.NodeID{}}
}

// gathered is a hint in the making.
type gathered struct {
	hint Hint
	any  bool
}

func (g *gathered) add(ctx context.Context, l *Listener, s *source, seen []activity.Entry) error {
	var in []drive.NodeID
	for _, e := range seen {
		g.any = true
		kind, _, _ := strings.Cut(string(e.Verb), ".")
		if !slices.Contains(g.hint.Kinds, kind) {
			g.hint.Kinds = append(g.hint.Kinds, kind)
		}
		var data struct {
			WasFolder drive.NodeID `json:"was_folder"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return errors.Join(errors.New("read the data of an entry"), err)
		}
		for _, id := range []drive.NodeID{e.Folder, data.WasFolder} {
			if !id.IsZero() && !slices.Contains(in, id) {
				in = append(in, id)
			}
		}
	}
	if !s.seer.all && len(in) > 0 { // where a folder lies that is shared is not the guest's to know
		spots, err := s.seer.lens.Spots(ctx, l.h.parts.DB.For(g.hint.Account), in)
		if err != nil {
			return err
		}
		in = slices.DeleteFunc(in, func(id drive.NodeID) bool { return !spots[id].Seen })
	}
	for _, id := range in {
		if !slices.Contains(g.hint.Folders, id) {
			g.hint.Folders = append(g.hint.Folders, id)
		}
	}
	return nil
}

func (g *gathered) done() []Hint {
	if !g.any && !g.hint.Many {
		return nil
	}
	if len(g.hint.Folders) > mostFolders {
		g.hint.Many = true
	}
	if g.hint.Many || g.hint.Folders == nil {
		g.hint.Folders = []drive.NodeID{}
	}
	return []Hint{g.hint}
}
