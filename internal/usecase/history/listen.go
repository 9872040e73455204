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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
)

// Hint tells that something happened in an account, without details; the client then reads what it
// needs.
type Hint struct {
	Account drive.AccountID `json:"account_id" doc:"account of the drive or space"`
	Kinds   []string        `json:"kinds" doc:"prefixes of the event types, such as node; access: the items shared with the caller, or the caller's rights, have changed"`
	Folders []drive.NodeID  `json:"folders" doc:"changed folders, as far as known; empty with many"`
	Many    bool            `json:"many" doc:"true: too many changes to list; any folder may have changed"` // more folders than listed may have changed
}

const (
	hintPage        = 200              // entries read at once
	hintPages       = 5                // pages read for one hint of a guest
	maxFolders      = 50               // folders in a hint
	maxSources      = 200              // accounts per listener
	refreshInterval = 30 * time.Second // minimum time between two lookups of the sources, which happen after grants have changed
	resumeMargin    = 1000             // positions to go back when resuming, because entries of different accounts do not commit in numeric order
)

// Listener waits for entries that its caller may see. It is for use by one goroutine. It stores a
// position per account and no entries.
type Listener struct {
	h           *History
	who         drive.Who
	watch       *activity.Watch
	sources     map[drive.AccountID]*source
	position    activity.Position
	stamp       access.EpochStamp // epoch in which the sources were looked up
	stampKnown  bool
	refreshedAt time.Time
}

// source is an account that a listener watches, with what the caller may see there.
type source struct {
	viewer     viewer
	reported   view         // access that the client knows of
	node       drive.NodeID // node that gives the caller access; zero: the caller's own drive
	at         activity.Position
	stamp      access.EpochStamp // epoch in which viewer was determined
	stampKnown bool              // stamp is valid
}

// view is a digest of what a caller may see and do in an account; another value means that the
// access changed.
type view struct {
	all    bool
	rights access.Right
	lens   string
}

// view returns the current view of the source.
func (s *source) view() view {
	return view{s.viewer.all, s.viewer.pass.Rights, s.viewer.lens.Digest()}
}

// Listen starts to listen. after is a former Listener.Cursor; empty: from now on. hints tell of the
// entries since then. If reset is true, those are unknown, and the client must read everything
// again. The caller must call Close unless there is an error.
func (h *History) Listen(ctx context.Context, who drive.Who, after string) (l *Listener, hints []Hint, reset bool, err error) {
	l = &Listener{h: h, who: who, sources: map[drive.AccountID]*source{}}
	oldest, newest, err := h.parts.Log.Span(ctx, h.parts.DB)
	if err != nil {
		return nil, nil, false, err
	}
	l.position = newest
	if _, err := l.refreshSources(ctx); err != nil {
		return nil, nil, false, err
	}
	if after == "" {
		return l, nil, false, nil
	}
	from, ok := parseListenCursor(after)
	if !ok || from > newest || from < oldest-1 || newest-from > hintPage*hintPages {
		return l, nil, true, nil
	}
	from = max(0, from-resumeMargin)
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

// parseListenCursor parses the result of Listener.Cursor, and returns false for any other text.
func parseListenCursor(cursor string) (activity.Position, bool) {
	n, err := strconv.ParseInt(cursor, 10, 64)
	return activity.Position(n), err == nil && n >= 0
}

// Close stops listening and frees the subscription. The caller must call it once.
func (l *Listener) Close() { l.watch.Close() }

// Ready returns a channel that receives a value when Next has new entries. Several entries may
// cause one value. Next may replace the channel, so the caller asks for it again after each call.
func (l *Listener) Ready() <-chan struct{} { return l.watch.Ready }

// Cursor returns the position after what Next has returned, from which Listen can resume.
func (l *Listener) Cursor() string { return strconv.FormatInt(int64(l.position), 10) }

// Next returns hints for entries since its last call. Call it when Ready receives a value, and also
// periodically: only then does it notice new shares. After an error hints may be missing until the
// next entry of their account.
func (l *Listener) Next(ctx context.Context) (hints []Hint, err error) {
	dirty := l.watch.Drain()
	if now, known := l.h.parts.Access.Stamp(); (!known || !l.stampKnown || now != l.stamp) && time.Since(l.refreshedAt) >= refreshInterval {
		other, err := l.refreshSources(ctx)
		if err != nil {
			return nil, err
		}
		if other {
			hints = append(hints, l.accessHint())
		}
	}
	for id, s := range l.sources { // an expiring role causes no notification
		if s.hasExpired() && !slices.Contains(dirty, id) {
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

// refreshSources looks up the accounts of which the caller may see something, maxSources at most,
// and stores them in l. other reports whether the caller's access has changed since the last
// lookup.
func (l *Listener) refreshSources(ctx context.Context) (other bool, err error) {
	stamp, known := l.h.parts.Access.Stamp() // before the lookup
	found := map[drive.AccountID]*source{l.who.Account: {viewer: viewer{pass: access.Pass{Who: l.who, Rights: access.All}, all: true}}}
	db := l.h.parts.DB
	spaces, err := l.h.parts.Access.ListMemberships(ctx, db, l.who.User)
	if err != nil {
		return false, err
	}
	add := func(account drive.AccountID, node drive.NodeID) error {
		if found[account] != nil || len(found) >= maxSources {
			return nil
		}
		s := &source{node: node}
		in, err := l.authorize(ctx, s)
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
	mounts, err := l.h.parts.Access.ListSharedWith(ctx, db, l.who.User, drive.NodeID{}, maxSources, true)
	if err != nil {
		return false, err
	}
	for _, m := range mounts {
		if err := add(m.Account, m.Node); err != nil {
			return false, err
		}
	}
	// Watch before reading the positions: entries in between are read twice at most.
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
		s.reported = s.view()
		other = other || l.sources[id] == nil || l.sources[id].reported != s.reported
	}
	other = other || len(found) != len(l.sources)
	if l.watch != nil {
		l.watch.Close()
	}
	l.watch, l.sources, l.stamp, l.stampKnown, l.refreshedAt = watch, found, stamp, known, time.Now()
	for id, s := range found { // entries committed between the old and the new watch
		if heads[id] > s.at {
			watch.Wake(id)
		}
	}
	return other, nil
}

// authorize reads what the caller sees through a source now and stores it in s. It returns false,
// without an error, if the caller sees nothing any more.
func (l *Listener) authorize(ctx context.Context, s *source) (bool, error) {
	if s.node.IsZero() { // the caller's own drive
		return true, nil
	}
	s.stamp, s.stampKnown = l.h.parts.Access.Stamp()
	pass, err := l.h.parts.Access.Enter(ctx, l.h.parts.DB, l.who, s.node, access.Look)
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.viewer = viewer{pass: pass, all: !pass.Who.Guest || pass.All}
	if !s.viewer.all {
		s.viewer.lens, err = l.h.parts.Access.Lens(ctx, l.h.parts.DB, pass)
	}
	return true, err
}

// hasExpired reports whether the caller's role has expired: the source must be authorized again,
// because no event tells it.
func (s *source) hasExpired() bool {
	until := s.viewer.pass.Until
	return until != 0 && until <= drive.TimeOf(time.Now())
}

// hintKinds returns the kinds that hints report: all except uploads and downloads, which are
// frequent.
func hintKinds() (kinds []string) {
	for _, v := range activity.Verbs() {
		kind, _, _ := strings.Cut(string(v), ".")
		if kind != "upload" && kind != "download" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// read returns hints for entries of an account since the source's position. It first checks access
// again if that may have changed.
func (l *Listener) read(ctx context.Context, account drive.AccountID, s *source) (hints []Hint, err error) {
	if now, known := l.h.parts.Access.Stamp(); !known || !s.stampKnown || now != s.stamp || s.hasExpired() {
		in, err := l.authorize(ctx, s)
		if err != nil {
			return nil, err
		}
		if !in { // no access through this node; another one may give access
			delete(l.sources, account)
			l.stampKnown = false
			return []Hint{l.accessHint()}, nil
		}
		if now := s.view(); now != s.reported {
			s.reported = now
			hints = append(hints, l.accessHint())
		}
	}
	h := hintBuilder{hint: Hint{Account: account}}
	q := l.h.parts.DB.For(account)
	for range hintPages {
		some, err := l.h.parts.Log.ListAfter(ctx, q, account, s.at, hintPage)
		if err != nil {
			return nil, err
		}
		if len(some) > 0 {
			s.at = some[len(some)-1].ID
		}
		seen, err := l.h.visible(ctx, q, s.viewer, Query{Types: hintKinds()}, some)
		if err != nil {
			return nil, err
		}
		if err := h.add(ctx, l, s, seen); err != nil {
			return nil, err
		}
		if len(some) < hintPage {
			break
		}
		if s.viewer.all { // more entries would only add that there are many
			h.hint.Many = true
			if s.at, err = l.h.parts.Log.Head(ctx, q, account); err != nil {
				return nil, err
			}
			break
		}
		l.watch.Wake(account) // the next call reads the rest
	}
	l.position = max(l.position, s.at)
	return append(hints, h.build()...), nil
}

// accessHint returns the hint that the caller's access has changed.
func (l *Listener) accessHint() Hint {
	return Hint{Account: l.who.Account, Kinds: []string{"access"}, Folders: []drive.NodeID{}}
}

// hintBuilder accumulates one hint. any is true once an entry was added, even if the hint names no
// folder.
type hintBuilder struct {
	hint Hint
	any  bool
}

// add adds the kinds of visible entries to the hint, and the folders that the caller may see. It
// fails if the data of an entry is damaged or a query fails.
func (b *hintBuilder) add(ctx context.Context, l *Listener, s *source, seen []activity.Entry) error {
	var in []drive.NodeID
	for _, e := range seen {
		b.any = true
		kind, _, _ := strings.Cut(string(e.Verb), ".")
		if !slices.Contains(b.hint.Kinds, kind) {
			b.hint.Kinds = append(b.hint.Kinds, kind)
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
	if !s.viewer.all && len(in) > 0 { // a guest may not learn where a shared folder is
		spots, err := s.viewer.lens.Visibilities(ctx, l.h.parts.DB.For(b.hint.Account), in)
		if err != nil {
			return err
		}
		in = slices.DeleteFunc(in, func(id drive.NodeID) bool { return !spots[id].Seen })
	}
	for _, id := range in {
		if !slices.Contains(b.hint.Folders, id) {
			b.hint.Folders = append(b.hint.Folders, id)
		}
	}
	return nil
}

// build returns the hint as the only element; nil if no entry was added. Above maxFolders folders,
// and with Many, the hint names no folders.
func (b *hintBuilder) build() []Hint {
	if !b.any && !b.hint.Many {
		return nil
	}
	if len(b.hint.Folders) > maxFolders {
		b.hint.Many = true
	}
	if b.hint.Many || b.hint.Folders == nil {
		b.hint.Folders = []drive.NodeID{}
	}
	return []Hint{b.hint}
}
