package dav

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
)

// section is the part of a view that a location lies in.
type section uint8

const (
	own    section = iota // the caller's own drive
	top                   // Separate: the folder that contains the sections
	spaces                // the folder of all spaces, or below
	shared                // the folder of all shares with the caller, or below
)

// sectionNames are the folder names of the sections by layout. In Merged they are among the
// caller's own folders.
var sectionNames = map[Layout]map[section]drive.Name{
	Separate: {own: "files", spaces: "spaces", shared: "shared"},
	Merged:   {spaces: "Spaces", shared: "Shared with me"},
}

// location is the parsed URL path of a view. It need not exist.
type location struct {
	section  section
	name     drive.Name // name of the space or share; empty: the folder of all
	path     drive.Path // path below it
	segments []string   // segments below the prefix, unescaped, as sent
}

// virtual reports whether the location is a folder that only the layout has: the top, or the list
// of spaces or shares. Such a folder has no node.
func (l location) virtual() bool {
	return l.section == top || (l.section == spaces || l.section == shared) && l.name == ""
}

// isRoot reports whether the location cannot be created, moved or deleted: a folder of the layout,
// or the root of a drive, space or share.
func (l location) isRoot() bool { return l.virtual() || len(l.path) == 0 }

// last returns the last name of the path; "" for the root of a section.
func (l location) last() drive.Name {
	_, name, _ := l.path.Split()
	return name
}

// parent returns the location of the folder. The location must not be a root.
func (l location) parent() location {
	up := l
	up.path = l.path[:len(l.path)-1]
	up.segments = l.segments[:len(l.segments)-1]
	return up
}

// same reports whether two locations are equal, names compared byte by byte.
func (l location) same(other location) bool {
	return l.section == other.section && l.name == other.name && slices.Equal(l.path, other.path)
}

// within reports whether p lies below other, at any depth; a location is not within itself.
func (l location) within(other location) bool {
	return l.section == other.section && l.name == other.name && len(l.path) > len(other.path) &&
		slices.Equal(l.path[:len(other.path)], other.path)
}

// parse parses the path of a URL. It splits the path before unescaping and ignores empty segments,
// which some clients send. It fails with drive.NotFound outside of the view, and with
// drive.BadName.
func (c *call) parse(u *url.URL) (location, error) {
	escaped := u.EscapedPath()
	below, ok := cutEscaped(escaped, c.view.Prefix)
	if !ok {
		if below, ok = cutEscaped(escaped, c.subPath()+c.view.Prefix); !ok {
			return location{}, drive.Fail(drive.NotFound)
		}
	}
	var segments []string
	for s := range strings.SplitSeq(below, "/") {
		if s == "" {
			continue
		}
		name, err := url.PathUnescape(s)
		if err != nil {
			return location{}, drive.Wrap(err, drive.BadName, "reason", "escape")
		}
		segments = append(segments, name)
	}
	path, err := drive.ParseSegments(segments)
	if err != nil {
		return location{}, err
	}
	return c.view.Layout.locate(path, segments)
}

// cutEscaped removes an unescaped prefix from an escaped path, segment by segment. ok is false if
// the path does not begin with the prefix.
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

// locate returns the location of a path in the layout. segments is the same path as sent. In the
// layout Separate it fails with drive.NotFound if the first name is not that of a section; in
// Merged it does not fail.
func (l Layout) locate(path drive.Path, segments []string) (location, error) {
	if len(path) == 0 {
		if l == Separate {
			return location{section: top, segments: segments}, nil
		}
		return location{path: drive.Path{}, segments: segments}, nil
	}
	for _, r := range []section{own, spaces, shared} {
		if sectionNames[l][r] != path[0] {
			continue
		}
		p := location{section: r, path: path[1:], segments: segments}
		if r != own && len(p.path) > 0 {
			p.name, p.path = p.path[0], p.path[1:]
		}
		return p, nil
	}
	if l == Separate {
		return location{}, drive.Fail(drive.NotFound)
	}
	first := realName(path[0])
	return location{path: append(drive.Path{first}, path[1:]...), segments: segments}, nil
}

// mineSuffix is appended, in the layout Merged, to the name of a folder of the caller's own drive
// that equals the name of a section, since both would appear in the same folder. A name that
// already ends so gets another suffix, so that no two names collide.
const mineSuffix = " (mine)"

// displayName returns the name under which the view shows a child of the root of the caller's own
// drive.
func (l Layout) displayName(name drive.Name) drive.Name {
	if l == Merged && isSectionName(name) {
		return name + mineSuffix
	}
	return name
}

// realName is the inverse of displayName.
func realName(shown drive.Name) drive.Name {
	if name, ok := strings.CutSuffix(string(shown), mineSuffix); ok && isSectionName(drive.Name(name)) {
		return drive.Name(name)
	}
	return shown
}

// isSectionName reports whether a name, after removing any mineSuffix, is that of a section in
// Merged. Case is ignored.
func isSectionName(name drive.Name) bool {
	s := string(name)
	for strings.HasSuffix(s, mineSuffix) {
		s = strings.TrimSuffix(s, mineSuffix)
	}
	for _, room := range sectionNames[Merged] {
		if drive.Name(s).Fold() == room.Fold() {
			return true
		}
	}
	return false
}

// address returns the address of a location for the use cases; the node need not exist. It fails
// with drive.NotFound if nothing is shared with the caller under the name, and for the top folder.
func (c *call) address(ctx context.Context, p location) (drive.Address, error) {
	switch p.section {
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

// find returns the entry at a location. It fails with drive.NotFound if there is none.
func (c *call) find(ctx context.Context, p location) (Entry, error) {
	if p.virtual() {
		return c.virtual(p), nil
	}
	at, err := c.address(ctx, p)
	if err != nil {
		return Entry{}, err
	}
	if p.section == spaces { // the use cases also accept ids, which listings do not show
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

// findParent returns the folder that a node is created in. It fails with drive.ParentGone if there
// is no such folder.
func (c *call) findParent(ctx context.Context, p location) (Entry, error) {
	e, err := c.find(ctx, p.parent())
	switch {
	case drive.IsKind(err, drive.NotFound):
		return e, drive.Wrap(err, drive.ParentGone)
	case err == nil && !e.IsFolder():
		return e, drive.Fail(drive.ParentGone)
	}
	return e, err
}

// entry returns the Entry of a node at an address; segments are its path in the view.
func (c *call) entry(n files.NodeView, at drive.Address, segments []string) Entry {
	e := Entry{NodeView: n, Place: at.Place, Path: at.Path, Node: n.ID}
	e.href = c.href(segments, n.Type == tree.TypeFolder)
	return e
}

// virtual returns the Entry of a folder that exists only in the layout and is not stored, such as
// the list of spaces. Its Node is zero.
func (c *call) virtual(p location) Entry {
	e := Entry{Virtual: true}
	e.Type = tree.TypeFolder
	e.Name = "SmartDrive"
	if n := len(p.segments); n > 0 {
		e.Name = p.segments[n-1]
	}
	e.href = c.href(p.segments, true)
	return e
}

// href returns the escaped URL path of segments in the view, including the base URL's path and the
// view's prefix. With folder it ends in a slash. It can be used in XML unescaped.
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
	return strings.ReplaceAll(b.String(), "&", "%26") // it is part of XML; the prefix may contain a user name
}

// mounted returns the nodes shared with the caller, with the names under which the caller sees
// them. It queries at every call.
func (c *call) mounted(ctx context.Context) ([]space.Mounted, error) {
	return c.opt.Spaces.Mounted(ctx, c.who)
}

// mySpaces returns the spaces that the caller is a member of. It queries at every call.
func (c *call) mySpaces(ctx context.Context) ([]space.View, error) {
	return c.opt.Spaces.List(ctx, c.who)
}
