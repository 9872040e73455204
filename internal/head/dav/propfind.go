package dav

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// wantedProps are the properties that a PROPFIND or REPORT requests. The zero value requests all.
type wantedProps struct {
	names    []Name // nil: all
	onlyName bool   // propname: names without values
}

// all reports whether the request asks for all properties instead of naming them.
func (a wantedProps) all() bool { return a.names == nil }

// readWanted parses the body of a PROPFIND; without one all properties are requested (RFC 4918
// §9.1). It fails with drive.BadRequest for another root element or one that contains none of
// allprop, propname and prop, with drive.TooLarge for too many or too long names, and with the
// errors of readBody.
func readWanted(r *http.Request) (wantedProps, error) {
	root, found, err := readBody(r)
	if err != nil || !found {
		return wantedProps{}, err
	}
	if root.Name != dav("propfind") {
		return wantedProps{}, drive.BadField("body", drive.Malformed, "expected", "propfind")
	}
	if _, ok := root.child("propname"); ok {
		return wantedProps{onlyName: true}, nil
	}
	prop, some := root.child("prop")
	if _, all := root.child("allprop"); all && !some {
		return wantedProps{}, nil
	}
	if !some {
		return wantedProps{}, drive.BadField("body", drive.Malformed, "expected", "allprop, propname or prop")
	}
	names, err := prop.names()
	return wantedProps{names: names}, err
}

// names returns the names of an element's children without repeats; e is a DAV:prop. The result is
// never nil. It fails with drive.TooLarge for more than maxNames names, or one above maxNameBytes.
func (e element) names() ([]Name, error) {
	names := []Name{}
	for _, c := range e.Children {
		if slices.Contains(names, c.Name) {
			continue
		}
		if len(c.Name.Space)+len(c.Name.Local) > maxNameBytes { // the response repeats it for each entry
			return nil, drive.Fail(drive.TooLarge, "field", "body", "limit", maxNameBytes, "sent", len(c.Name.Space)+len(c.Name.Local))
		}
		if names = append(names, c.Name); len(names) > maxNames { // bounds the comparisons
			return nil, drive.Fail(drive.TooLarge, "field", "body", "limit", maxNames, "sent", len(e.Children))
		}
	}
	return names, nil
}

// readDepth parses the Depth header; absent it is infinity (RFC 4918 §10.2). Other values than 0, 1
// and infinity fail with drive.BadRequest.
func readDepth(r *http.Request) (string, error) {
	switch d := strings.ToLower(strings.TrimSpace(r.Header.Get("Depth"))); d {
	case "0", "1":
		return d, nil
	case "", "infinity":
		return "infinity", nil
	default:
		return "", drive.BadField("Depth", drive.NotAllowed, "allowed", []string{"0", "1", "infinity"}, "sent", server.Clip(d))
	}
}

// prefer holds the client's preferences (RFC 8144). minimal leaves out missing properties; noRoot
// leaves out the listed folder itself.
type prefer struct{ minimal, noRoot bool }

// prefer returns the preferences of the header Prefer, and of Brief, its predecessor by Microsoft.
// It adds Preference-Applied and Vary to the response.
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

// propfind handles PROPFIND of one location, or of a folder and its children. Depth infinity on a
// folder fails with status 403 (propfind-finite-depth), a missing node with drive.NotFound.
func (c *call) propfind(ctx context.Context) error {
	depth, err := readDepth(c.r)
	if err != nil {
		return err
	}
	want, err := readWanted(c.r)
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
	show := c.entryWriter(want, wish.minimal, top)
	out := newMultistatus(c)
	if depth == "0" || !wish.noRoot {
		if err := show.writePage(ctx, out, []Entry{top}); err != nil {
			return err
		}
	}
	if depth == "1" && top.IsFolder() {
		if err := c.children(ctx, top, func(page []Entry) error { return show.writePage(ctx, out, page) }); err != nil {
			return c.abort(out, err)
		}
	}
	out.end()
	return nil
}

// abort ends a listing that failed midway with err. If nothing has been sent, it returns err for a
// normal answer. Otherwise it records err for the access log and panics with http.ErrAbortHandler,
// so that the connection breaks (D1).
func (c *call) abort(out *multistatus, err error) error {
	if !out.sent {
		return err
	}
	problem.Note(c.w, fmt.Errorf("a listing broke off: %w", err))
	panic(http.ErrAbortHandler)
}

// children calls fn with the children of the folder top, which is at the request's URL, page by
// page. A page may be empty. It leaves out what the policy Hide hides (Litter). It stops at the
// first error of a query or of fn, and returns it.
func (c *call) children(ctx context.Context, top Entry, fn func([]Entry) error) error {
	if top.Virtual {
		return c.virtualChildren(ctx, fn)
	}
	if c.view.Layout == Merged && c.at.section == own && len(c.at.path) == 0 {
		if err := c.homeSections(ctx, fn); err != nil {
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
				name = c.view.Layout.displayName(name)
			}
			entries = append(entries, c.entry(n, at, append(slices.Clip(c.at.segments), string(name))))
		}
		return fn(entries)
	})
}

// homeSections calls fn with the folders of the layout Merged, Spaces and Shared with me, that are
// not empty for the caller. fn is called once, or not at all if both are empty. It fails with the
// error of a query or of fn.
func (c *call) homeSections(ctx context.Context, fn func([]Entry) error) error {
	var entries []Entry
	all, err := c.mySpaces(ctx)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		entries = append(entries, c.virtual(location{section: spaces, segments: []string{string(sectionNames[Merged][spaces])}}))
	}
	with, err := c.opt.Spaces.HasMounts(ctx, c.who)
	if err != nil {
		return err
	}
	if with {
		entries = append(entries, c.virtual(location{section: shared, segments: []string{string(sectionNames[Merged][shared])}}))
	}
	if len(entries) == 0 {
		return nil
	}
	return fn(entries)
}

// mountsPerPage is how many shares a page of a listing has.
const mountsPerPage = 500

// mounts calls fn with the nodes that are shared with the caller, page by page. It stops at the
// first error of a query or of fn, and returns it.
func (c *call) mounts(ctx context.Context, fn func([]Entry) error) error {
	all, err := c.mounted(ctx)
	if err != nil {
		return err
	}
	for page := range slices.Chunk(all, mountsPerPage) {
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

// virtualChildren calls fn with the children of the request's folder, which exists only in the
// layout: the sections at the top, the caller's spaces, or the nodes shared with the caller.
func (c *call) virtualChildren(ctx context.Context, fn func([]Entry) error) error {
	switch c.at.section {
	case top:
		home, err := c.find(ctx, location{section: own, path: drive.Path{}, segments: []string{string(sectionNames[Separate][own])}})
		if err != nil {
			return err
		}
		return fn([]Entry{
			home, c.virtual(location{section: spaces, segments: []string{string(sectionNames[Separate][spaces])}}),
			c.virtual(location{section: shared, segments: []string{string(sectionNames[Separate][shared])}}),
		})
	case spaces:
		return c.eachSpace(ctx, fn)
	case shared:
		return c.mounts(ctx, fn)
	case own:
	}
	return nil
}

// eachSpace calls fn once with the root entries of the caller's spaces in which the caller may see
// nodes. It fails with the error of a query or of fn.
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
