package dav

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/files"
)

// mkcol is MKCOL: one folder in a folder that is there.
func (c *call) mkcol(ctx context.Context) error {
	if body, err := io.ReadAll(io.LimitReader(server.Incoming(c.r), 1)); err != nil || len(body) > 0 { // RFC 4918 §9.3: no body has a meaning here
		return drive.Wrap(err, drive.MediaType, "field", "body", "sent", server.Clip(c.r.Header.Get("Content-Type")), "expected", "no body")
	}
	if c.at.isRoot() {
		switch e, err := c.there(ctx, c.at); {
		case err != nil:
			return err
		case e == nil: // clients take 405 for a folder that is there
			return noPlace()
		default:
			return drive.Fail(drive.NameTaken, "name", e.Name)
		}
	}
	if err := c.opt.Litter().takes(c.at.last()); err != nil {
		return err
	}
	parent, err := c.findParent(ctx, c.at)
	if err != nil {
		return err
	}
	if err := c.conditions(ctx, nil); err != nil {
		return err
	}
	if err := c.unlocked(ctx, parent, false); err != nil {
		return err
	}
	if _, err := c.makeFolder(ctx, parent, c.at.last()); err != nil {
		return err
	}
	if e, err := c.find(ctx, c.at); err == nil {
		c.describe(ctx, e)
	}
	return c.made(true)
}

func (c *call) makeFolder(ctx context.Context, parent Entry, name drive.Name) (files.Result, error) {
	if parent.Virtual {
		return files.Result{}, noPlace()
	}
	return c.opt.Files.Mkdir(ctx, c.who, files.Mkdir{Parent: parent.Node, Name: name, Conflict: drive.ConflictFail, Expect: c.expect})
}

// noPlace says that nobody can make or take away anything here: it is a folder of the layout.
func noPlace() error { return drive.Fail(drive.Forbidden, "reason", "layout") }

// remove is DELETE: into the trash.
func (c *call) remove(ctx context.Context) error {
	e, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	if c.at.isRoot() {
		return noPlace()
	}
	if err := c.conditions(ctx, &e); err != nil {
		return err
	}
	if err := mayTake(ctx, c, c.at, e); err != nil {
		return err
	}
	if err := expectAt(ctx, c, c.at, &e, tree.Seen{}); err != nil {
		return err
	}
	if _, err := c.opt.Files.Trash(ctx, c.who, e.Node, c.expect); err != nil {
		return err
	}
	return c.made(false)
}

// mayTake refuses to take away what is locked, or in a locked folder.
func mayTake(ctx context.Context, c *call, p place, e Entry) error {
	if err := c.unlocked(ctx, e, e.IsFolder()); err != nil {
		return err
	}
	parent, err := c.findParent(ctx, p)
	if err != nil {
		return err
	}
	return c.unlocked(ctx, parent, false)
}

// transfer is what COPY and MOVE have in common.
type transfer struct {
	from   Entry
	to     place
	parent Entry  // that it goes to
	there  *Entry // what has the name; nil: it is free
	free   bool   // Overwrite: F, the name must be free
}

// conflict is what becomes of a node that takes the name before this one does.
func (t transfer) conflict() drive.Conflict {
	if t.free {
		return drive.ConflictFail
	}
	return drive.ConflictReplace
}

func (c *call) transfer(ctx context.Context) (t transfer, err error) {
	if t.from, err = c.find(ctx, c.at); err != nil {
		return t, err
	}
	if t.to, err = c.destination(); err != nil {
		return t, err
	}
	switch {
	case c.at.isRoot() && c.r.Method == "MOVE", t.from.Virtual, t.to.isRoot():
		return t, noPlace()
	case t.to.same(c.at): // RFC 4918 §9.8.5, §9.9.4
		return t, drive.Fail(drive.Forbidden, "reason", "same")
	case t.to.within(c.at):
		return t, drive.Fail(drive.Cycle)
	}
	if err := c.opt.Litter().takes(t.to.last()); err != nil {
		return t, err
	}
	if err := c.conditions(ctx, &t.from); err != nil {
		return t, err
	}
	if t.parent, err = c.findParent(ctx, t.to); err != nil {
		return t, err
	}
	if t.parent.Virtual {
		return t, noPlace()
	}
	if t.there, err = c.there(ctx, t.to); err != nil {
		return t, err
	}
	t.free = strings.EqualFold(strings.TrimSpace(c.r.Header.Get("Overwrite")), "F")
	if t.there != nil && t.free {
		return t, drive.Fail(drive.NameTaken, "name", string(t.to.last()))
	}
	if t.there != nil && t.there.Node == t.from.Node { // the source by another address
		return t, drive.Fail(drive.Forbidden, "reason", "same")
	}
	if t.there != nil && c.at.within(t.to) { // what holds the source
		return t, drive.Fail(drive.Cycle)
	}
	if err := mayPut(ctx, c, t.to, t.there); err != nil {
		return t, err
	}
	if c.r.Method == "MOVE" {
		if err := mayTake(ctx, c, c.at, t.from); err != nil {
			return t, err
		}
	}
	if err := expectAt(ctx, c, c.at, &t.from, tree.Seen{}); err != nil {
		return t, err
	}
	return t, expectAt(ctx, c, t.to, t.there, tree.Seen{})
}

// destination reads where a COPY or MOVE goes: an absolute URL, or a path.
func (c *call) destination() (place, error) {
	text := c.r.Header.Get("Destination")
	if text == "" {
		return place{}, drive.Bad("Destination", drive.Required)
	}
	u, err := url.Parse(text)
	if err != nil {
		return place{}, drive.Wrap(err, drive.BadRequest, "field", "Destination", "reason", string(drive.Malformed), "expected", "a URL")
	}
	if err := c.CheckHost(c.r, u); err != nil {
		return place{}, err
	}
	to, err := c.parse(u)
	if drive.IsKind(err, drive.NotFound) { // RFC 4918 §9.8.5, §9.9.4: not one of ours
		err = condition{drive.Wrap(err, drive.Forbidden, "reason", "layout"), http.StatusForbidden, "", ""}
	}
	return to, err
}

// CheckHost refuses a Destination on another server (RFC 4918 §9.8.5): one whose host is neither
// that of Options.BaseURL nor the one that the request has come to. Without BaseURL every host
// passes: a proxy may not hand on the one that the client has named.
func (h *Head) CheckHost(r *http.Request, u *url.URL) error {
	base, err := url.Parse(h.opt.BaseURL)
	if err != nil || base.Host == "" || u.Host == "" || sameHost(u.Host, base.Host) || sameHost(u.Host, r.Host) {
		return nil //nolint:nilerr // a BaseURL that is no URL names no host
	}
	err = drive.Bad("Destination", drive.NotAllowed, "allowed", []string{base.Host}, "sent", u.Host)
	return condition{err, http.StatusBadGateway, "", ""}
}

// sameHost compares hosts, whatever their case and without the ports that a browser leaves out.
func sameHost(a, b string) bool {
	bare := func(host string) string { return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80") }
	return strings.EqualFold(bare(a), bare(b))
}

// move is MOVE. A file onto a file adds a version to that one (D4); all else that is in the way
// goes to the trash.
func (c *call) move(ctx context.Context) error {
	t, err := c.transfer(ctx)
	if err != nil {
		return err
	}
	if err := c.moveAs(ctx, t); err != nil {
		return err
	}
	return c.transferred(ctx, t)
}

func (c *call) moveAs(ctx context.Context, t transfer) error {
	var err error
	if t.there != nil && !t.there.IsFolder() && !t.from.IsFolder() {
		_, err = c.opt.Files.Supersede(ctx, c.who, t.from.Node, t.there.Node, c.expect)
	} else {
		patch := files.Patch{Parent: t.parent.Node, Name: t.to.last(), Conflict: t.conflict(), Expect: c.expect}
		_, err = c.opt.Files.Patch(ctx, c.who, t.from.Node, patch)
	}
	if files.IsElsewhere(err) { // from one account to another
		return c.transferAs(ctx, t, c.opt.Files.Copies.Relocate)
	}
	return err
}

// copy is COPY.
func (c *call) copy(ctx context.Context) error {
	depth, err := readDepth(c.r)
	if err != nil {
		return err
	}
	t, err := c.transfer(ctx)
	if err != nil {
		return err
	}
	if depth == "0" && t.from.IsFolder() {
		_, err = c.opt.Files.Mkdir(ctx, c.who, files.Mkdir{Parent: t.parent.Node, Name: t.to.last(), Conflict: drive.ConflictFail, Over: t.over(), Like: t.from.Node, Expect: c.expect})
	} else {
		err = c.transferAs(ctx, t, c.opt.Files.Copies.Copy)
	}
	if err != nil {
		return err
	}
	return c.transferred(ctx, t)
}

// over is what is in the way; zero: nothing.
func (t transfer) over() drive.NodeID {
	if t.there == nil {
		return drive.NodeID{}
	}
	return t.there.Node
}

// transferAs copies a file or a folder with all that is in it, or moves it from one account to
// another. A file onto a file adds a version; all else that is in the way goes to the trash, once
// what comes is there.
func (c *call) transferAs(
	ctx context.Context, t transfer, do func(context.Context, drive.Who, drive.NodeID, files.Copy) (files.Result, error),
) error {
	to := files.Copy{Parent: t.parent.Node, Name: t.to.last(), Conflict: t.conflict(), Properties: true, Join: true, Expect: c.expect}
	if t.there != nil && !t.from.IsFolder() && t.there.IsFolder() {
		to.Over = t.over()
	}
	made, err := do(ctx, c.who, t.from.Node, to)
	if err == nil && made.Operation != nil {
		err = await(ctx, c, *made.Operation)
	}
	return err
}

const (
	// awaitAtMost is how long a request waits for a copy of many nodes: less than clients and
	// proxies commonly wait for an answer.
	awaitAtMost = 50 * time.Second
	awaitEvery  = 200 * time.Millisecond
)

// await waits until an operation has ended. One that takes longer goes on by itself, and is
// InProgress: the copy is not there before all of it is. The same request again waits for it
// further.
func await(ctx context.Context, c *call, o files.Operation) error {
	end := time.NewTimer(awaitAtMost)
	defer end.Stop()
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for o.State == files.Running {
		select {
		case <-ctx.Done():
			return drive.Wrap(ctx.Err(), drive.Unavailable)
		case <-end.C:
			return drive.Fail(drive.InProgress, "retry_after", 30)
		case <-tick.C:
		}
		var err error
		if o, err = c.opt.Files.Operations.Find(ctx, c.who, o.ID); err != nil {
			return err
		}
	}
	return o.Outcome()
}

// transferred answers a COPY or MOVE.
func (c *call) transferred(ctx context.Context, t transfer) error {
	if c.view.Describe != nil {
		if e, err := c.find(ctx, t.to); err == nil {
			c.describe(ctx, e)
		}
	}
	if t.there == nil {
		c.w.Header().Set("Location", c.href(t.to.segments, false))
	}
	return c.made(t.there == nil)
}
