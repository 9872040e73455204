package dav

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/usecase/files"
	"smartdrive/internal/usecase/space"
)

// room is which part of a view an address lies in.
type room uint8

const (
	own    room = iota // the caller's own drive
	top                // Apart: the folder above the rooms
	spaces             // the folder of the spaces, or what is in one
	shared             // the folder of what is shared with the caller, or what is in it
)

// The names of the rooms, by layout. In Home they stand among the caller's own folders.
var rooms = map[Layout]map[room]drive.Name{
	Apart: {own: "files", spaces: "spaces", shared: "shared"},
	Home:  {spaces: "Spaces", shared: "Shared with me"},
}

// place is an address of a view.
type place struct {
	room     room
	name     drive.Name // of spaces and shared: which one; empty: the folder of all
	path     drive.Path // below it
	segments []string   // below the prefix, decoded, as the client has written them
}

// virtual reports whether the address is a folder of the layout.
func (p place) virtual() bool {
	return p.room == top || (p.room == spaces || p.room == shared) && p.name == ""
}

// isRoot reports whether the address is one that nobody can make, move or delete: a folder of the
// layout, or the top of a room.
func (p place) isRoot() bool { return p.virtual() || len(p.path) == 0 }

// last is the name at the end of the address.
func (p place) last() drive.Name {
	_, name, _ := p.path.Split()
	return name
}

// parent is the folder of an address that is not a root.
func (p place) parent() place {
	up := p
	up.path = p.path[:len(p.path)-1]
	up.segments = p.segments[:len(p.segments)-1]
	return up
}

// same reports whether two addresses are one.
func (p place) same(other place) bool {
	return p.room == other.room && p.name == other.name && slices.Equal(p.path, other.path)
}

// within reports whether p lies below other.
func (p place) within(other place) bool {
	return p.room == other.room && p.name == other.name && len(p.path) > len(other.path) &&
		slices.Equal(p.path[:len(other.path)], other.path)
}

// parse reads the path of a URL, which is split before it is decoded. A slash at its end and
// slashes that stand together mean nothing: some clients send them.
func (c *call) parse(u *url.URL) (place, error) {
	escaped := u.EscapedPath()
	below, ok := cutEscaped(escaped, c.view.Prefix)
	if !ok {
		if below, ok = cutEscaped(escaped, c.subPath()+c.view.Prefix); !ok {
			return place{}, drive.Fail(drive.NotFound)
		}
	}
	var segments []string
	for s := range strings.SplitSeq(below, "/") {
		if s == "" {
			continue
		}
		name, err := url.PathUnescape(s)
		if err != nil {
			return place{}, drive.Wrap(err, drive.BadName, "reason", "escape")
		}
		segments = append(segments, name)
	}
	path, err := drive.ParseSegments(segments)
	if err != nil {
		return place{}, err
	}
	return c.view.Layout.place(path, segments)
}

// cutEscaped takes a decoded prefix off an escaped path, segment by segment.
func cutEscaped(escaped, prefix string) (below string, ok bool) {
	rest := strings.TrimLeft(escaped, "/")
	for want := range strings.SplitSeq(strings.Trim(prefix, "/"), "/") {
		if want == "" {
			continue
		}
		var have string
		have, rest, _ = strings.Cut(rest, "/")
		if got, err := url.PathUnescape(have); err != nil || got != want {
			return "", false
		}
		rest = strings.TrimLeft(rest, "/")
	}
	return rest, true
}

// place says what a path means in the layout.
func (l Layout) place(path drive.Path, segments []string) (place, error) {
	if len(path) == 0 {
		if l == Apart {
			return place{room: top, segments: segments}, nil
		}
		return place{path: drive.Path{}, segments: segments}, nil
	}
	for _, r := range []room{own, spaces, shared} {
		if rooms[l][r] != path[0] {
			continue
		}
		p := place{room: r, path: path[1:], segments: segments}
		if r != own && len(p.path) > 0 {
			p.name, p.path = p.path[0], p.path[1:]
		}
		return p, nil
	}
	if l == Apart {
		return place{}, drive.Fail(drive.NotFound)
	}
	first := real(path[0])
	return place{path: append(drive.Path{first}, path[1:]...), segments: segments}, nil
}

// mine is added to the name of a folder of the caller's own that has the name of a room, in a view
// where both stand side by side. Of names that end so already, one more is added: no two names
// become one.
const mine = " (mine)"

// shownAs is the name that a child of the caller's root has in the view.
func (l Layout) shownAs(name drive.Name) drive.Name {
	if l == Home && isRoomName(name) {
		return name + mine
	}
	return name
}

// real is the name of a child of the caller's root that is shown under another one.
func real(shown drive.Name) drive.Name {
	if name, ok := strings.CutSuffix(string(shown), mine); ok && isRoomName(drive.Name(name)) {
		return drive.Name(name)
	}
	return shown
}

func isRoomName(name drive.Name) bool {
	s := string(name)
	for strings.HasSuffix(s, mine) {
		s = strings.TrimSuffix(s, mine)
	}
	for _, room := range rooms[Home] {
		if drive.Name(s).Fold() == room.Fold() {
			return true
		}
	}
	return false
}

// address is where the use cases find what a place of the view means.
func (c *call) address(ctx context.Context, p place) (drive.Address, error) {
	switch p.room {
	case own:
		return drive.Address{Path: p.path}, nil
	case spaces:
		return drive.Address{Place: string(p.name), Path: p.path}, nil
	case shared:
		m, err := c.opt.Spaces.MountedAs(ctx, c.who, p.name)
		return drive.Address{Place: m.Node.String(), Path: p.path}, err
	case top:
	}
	return drive.Address{}, drive.Fail(drive.NotFound)
}

// find returns what is at a place.
func (c *call) find(ctx context.Context, p place) (Entry, error) {
	if p.virtual() {
		return c.virtual(p), nil
	}
	at, err := c.address(ctx, p)
	if err != nil {
		return Entry{}, err
	}
	if p.room == spaces { // the address takes ids, too, which the listing does not show
		if _, notID := drive.ParseID[drive.NodeID](at.Place); notID == nil {
			return Entry{}, drive.Fail(drive.NotFound)
		}
	}
	node, err := c.opt.Files.GetByPath(ctx, c.who, at)
	if err != nil {
		return Entry{}, err
	}
	return c.entry(node, at, p.segments), nil
}

// findParent is find of the folder that something goes to: one that is not there is ParentGone.
func (c *call) findParent(ctx context.Context, p place) (Entry, error) {
	e, err := c.find(ctx, p.parent())
	switch {
	case drive.IsKind(err, drive.NotFound):
		return e, drive.Wrap(err, drive.ParentGone)
	case err == nil && !e.IsFolder():
		return e, drive.Fail(drive.ParentGone)
	}
	return e, err
}

// entry is a node at an address.
func (c *call) entry(n files.NodeView, at drive.Address, segments []string) Entry {
	e := Entry{NodeView: n, Place: at.Place, Path: at.Path, Node: n.ID}
	e.href = c.href(segments, n.Type == tree.TypeFolder)
	return e
}

// virtual is a folder of the layout.
func (c *call) virtual(p place) Entry {
	e := Entry{Virtual: true}
	e.Type = tree.TypeFolder
	e.Name = "SmartDrive"
	if n := len(p.segments); n > 0 {
		e.Name = p.segments[n-1]
	}
	e.href = c.href(p.segments, true)
	return e
}

// href is the address of something below the prefix, escaped.
func (c *call) href(segments []string, folder bool) string {
	u := url.URL{Path: c.subPath() + c.view.Prefix}
	var b strings.Builder
	b.WriteString(u.EscapedPath())
	for i, s := range segments {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(url.PathEscape(s))
	}
	if folder && len(segments) > 0 {
		b.WriteByte('/')
	}
	return strings.ReplaceAll(b.String(), "&", "%26") // it stands in XML; the prefix may have the name of a user
}

// withMe lists what is shared with the caller by name.
func (c *call) withMe(ctx context.Context) ([]space.Mounted, error) {
	return c.opt.Spaces.Mounted(ctx, c.who)
}

// mySpaces lists the spaces that the caller sees.
func (c *call) mySpaces(ctx context.Context) ([]space.View, error) {
	return c.opt.Spaces.List(ctx, c.who)
}
