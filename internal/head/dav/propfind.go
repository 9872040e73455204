package dav

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/files"
)

// asked is what a PROPFIND wants to know.
type asked struct {
	names    []Name // nil: all that there are
	onlyName bool   // propname: no values
}

func (a asked) all() bool { return a.names == nil }

// readAsked reads the body of a PROPFIND; without one it asks for all properties (RFC 4918 §9.1).
func readAsked(r *http.Request) (asked, error) {
	root, found, err := readBody(r)
	if err != nil || !found {
		return asked{}, err
	}
	if root.Name != dav("propfind") {
		return asked{}, drive.Bad("body", drive.Malformed, "expected", "propfind")
	}
	if _, ok := root.child("propname"); ok {
		return asked{onlyName: true}, nil
	}
	prop, some := root.child("prop")
	if _, all := root.child("allprop"); all && !some {
		return asked{}, nil
	}
	if !some {
		return asked{}, drive.Bad("body", drive.Malformed, "expected", "allprop, propname or prop")
	}
	names, err := prop.names()
	return asked{names: names}, err
}

// names are those of the properties in a DAV:prop, each once.
func (e element) names() ([]Name, error) {
	names := []Name{}
	for _, c := range e.Children {
		if slices.Contains(names, c.Name) {
			continue
		}
		if len(c.Name.Space)+len(c.Name.Local) > maxNameBytes { // each entry's answer repeats it
			return nil, drive.Fail(drive.TooLarge, "field", "body", "limit", maxNameBytes, "sent", len(c.Name.Space)+len(c.Name.Local))
		}
		if names = append(names, c.Name); len(names) > maxNames { // more are not compared with each other
			return nil, drive.Fail(drive.TooLarge, "field", "body", "limit", maxNames, "sent", len(e.Children))
		}
	}
	return names, nil
}

// readDepth reads the Depth header; absent it is infinity (RFC 4918 §10.2).
func readDepth(r *http.Request) (string, error) {
	switch d := strings.ToLower(strings.TrimSpace(r.Header.Get("Depth"))); d {
	case "0", "1":
		return d, nil
	case "", "infinity":
		return "infinity", nil
	default:
		return "", drive.Bad("Depth", drive.NotAllowed, "allowed", []string{"0", "1", "infinity"}, "sent", server.Clip(d))
	}
}

// prefer is what of Prefer (RFC 8144) and Brief, which Microsoft had before, a client wishes.
type prefer struct{ minimal, noRoot bool }

func (c *call) prefer() (p prefer) {
	for _, wish := range server.Preferences(c.r.Header) {
		switch wish {
		case server.Minimal:
			p.minimal = true
		case "depth-noroot":
			p.noRoot = true
		}
	}
	if p.minimal {
		c.w.Header().Add("Preference-Applied", server.Minimal)
	}
	if p.noRoot {
		c.w.Header().Add("Preference-Applied", "depth-noroot")
	}
	p.minimal = p.minimal || strings.EqualFold(strings.TrimSpace(c.r.Header.Get("Brief")), "t")
	c.w.Header().Add("Vary", "Prefer, Brief")
	return p
}

// propfind is PROPFIND of one address or of a folder and what is in it.
func (c *call) propfind(ctx context.Context) error {
	depth, err := readDepth(c.r)
	if err != nil {
		return err
	}
	want, err := readAsked(c.r)
	if err != nil {
		return err
	}
	top, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	if depth == "infinity" && top.IsFolder() {
		return condition{drive.Fail(drive.Forbidden, "reason", "finite-depth"), http.StatusForbidden, "propfind-finite-depth", ""}
	}
	setClasses(c.w.Header())
	wish := c.prefer()
	show := c.describer(want, wish.minimal, top)
	out := newMultistatus(c)
	if depth == "0" || !wish.noRoot {
		if err := show.page(ctx, out, []Entry{top}); err != nil {
			return err
		}
	}
	if depth == "1" && top.IsFolder() {
		if err := c.children(ctx, top, func(page []Entry) error { return show.page(ctx, out, page) }); err != nil {
			return c.broken(out, err)
		}
	}
	out.end()
	return nil
}

// broken is how a listing ends that cannot be read to its end: as an error while nothing was sent,
// else the connection is broken off (D1).
func (c *call) broken(out *multistatus, err error) error {
	if !out.sent {
		return err
	}
	problem.Note(c.w, fmt.Errorf("a listing broke off: %w", err))
	panic(http.ErrAbortHandler)
}

// children calls fn with what is in a folder, page by page.
func (c *call) children(ctx context.Context, top Entry, fn func([]Entry) error) error {
	if top.Virtual {
		return c.virtualChildren(ctx, fn)
	}
	if c.view.Layout == Home && c.at.room == own && len(c.at.path) == 0 {
		if err := c.roomsAtHome(ctx, fn); err != nil {
			return err
		}
	}
	return c.opt.Files.EachChild(ctx, c.who, top.Node, func(nodes []files.NodeView) error {
		entries := make([]Entry, 0, len(nodes))
		for _, n := range nodes {
			name := drive.Name(n.Name)
			if !c.opt.Litter().shows(name, n.Type == tree.TypeFolder) {
				continue
			}
			at := drive.Address{Place: top.Place, Path: append(slices.Clip(top.Path), name)}
			if len(c.at.segments) == 0 {
				name = c.view.Layout.shownAs(name)
			}
			entries = append(entries, c.entry(n, at, append(slices.Clip(c.at.segments), string(name))))
		}
		return fn(entries)
	})
}

// roomsAtHome are the folders of the layout among the caller's own, those that have something in
// them.
func (c *call) roomsAtHome(ctx context.Context, fn func([]Entry) error) error {
	var entries []Entry
	all, err := c.mySpaces(ctx)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		entries = append(entries, c.virtual(place{room: spaces, segments: []string{string(rooms[Home][spaces])}}))
	}
	with, err := c.opt.Spaces.HasMounts(ctx, c.who)
	if err != nil {
		return err
	}
	if with {
		entries = append(entries, c.virtual(place{room: shared, segments: []string{string(rooms[Home][shared])}}))
	}
	if len(entries) == 0 {
		return nil
	}
	return fn(entries)
}

// guestsAtOnce is how many shares a listing shows at a time.
const guestsAtOnce = 500

// guests calls fn with what is shared with the caller by name, page by page.
func (c *call) guests(ctx context.Context, fn func([]Entry) error) error {
	all, err := c.withMe(ctx)
	if err != nil {
		return err
	}
	for page := range slices.Chunk(all, guestsAtOnce) {
		nodes := make([]tree.Node, len(page))
		for i, m := range page {
			nodes[i] = m.Item
		}
		views, err := c.opt.Files.ViewTops(ctx, nodes)
		if err != nil {
			return err
		}
		entries := make([]Entry, 0, len(page))
		for _, m := range page {
			if n, there := views[m.Node]; there {
				at := drive.Address{Place: m.Node.String(), Path: drive.Path{}}
				entries = append(entries, c.entry(n, at, append(slices.Clip(c.at.segments), string(m.As))))
			}
		}
		if err := fn(entries); err != nil {
			return err
		}
	}
	return nil
}

// virtualChildren are what is in a folder of the layout.
func (c *call) virtualChildren(ctx context.Context, fn func([]Entry) error) error {
	switch c.at.room {
	case top:
		home, err := c.find(ctx, place{room: own, path: drive.Path{}, segments: []string{string(rooms[Apart][own])}})
		if err != nil {
			return err
		}
		return fn([]Entry{
			home, c.virtual(place{room: spaces, segments: []string{string(rooms[Apart][spaces])}}),
			c.virtual(place{room: shared, segments: []string{string(rooms[Apart][shared])}}),
		})
	case spaces:
		return c.eachSpace(ctx, fn)
	case shared:
		return c.guests(ctx, fn)
	case own:
	}
	return nil
}

// eachSpace calls fn with the spaces that the caller may look at.
func (c *call) eachSpace(ctx context.Context, fn func([]Entry) error) error {
	all, err := c.mySpaces(ctx)
	if err != nil {
		return err
	}
	roots := make([]drive.NodeID, len(all))
	for i, s := range all {
		roots[i] = s.Root
	}
	views, err := c.opt.Files.ViewRoots(ctx, roots)
	if err != nil {
		return err
	}
	entries := make([]Entry, 0, len(all))
	for _, s := range all {
		if n, there := views[s.Root]; there && s.Rights.Has(access.See) {
			at := drive.Address{Place: s.Name, Path: drive.Path{}}
			entries = append(entries, c.entry(n, at, append(slices.Clip(c.at.segments), s.Name)))
		}
	}
	return fn(entries)
}
