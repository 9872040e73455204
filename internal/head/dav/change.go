package dav

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// mkcol handles MKCOL: it creates one folder in an existing folder and replies 201. A request with
// a body fails with drive.MediaType, an existing root with drive.NameTaken, a failed condition with
// drive.Precondition and a lock whose token is missing with drive.Locked.
func (c *call) mkcol(ctx context.Context) error {
	if body, err := io.ReadAll(io.LimitReader(server.RequestBody(c.r), 1)); err != nil || len(body) > 0 { // RFC 4918 §9.3: no body has a meaning here
		return drive.Wrap(err, drive.MediaType, "field", "body", "sent", server.Clip(c.r.Header.Get("Content-Type")), "expected", "no body")
	}
	if c.at.isRoot() {
		switch e, err := c.lookup(ctx, c.at); {
		case err != nil:
			return err
		case e == nil: // for an existing folder clients expect 405
			return refuseLayout()
		default:
			return drive.Fail(drive.NameTaken, "name", e.Name)
		}
	}
	if err := c.opt.Litter().checkName(c.at.last()); err != nil {
		return err
	}
	parent, err := c.findParent(ctx, c.at)
	if err != nil {
		return err
	}
	if err := c.conditions(ctx, nil); err != nil {
		return err
	}
	if err := c.checkUnlocked(ctx, parent, false); err != nil {
		return err
	}
	if _, err := c.makeFolder(ctx, parent, c.at.last()); err != nil {
		return err
	}
	if e, err := c.find(ctx, c.at); err == nil {
		c.describe(ctx, e)
	}
	return c.respondChanged(true)
}

// makeFolder creates the folder name in parent if c.expect still holds. It fails with
// refuseLayout's error in a virtual folder and with drive.NameTaken if the name exists.
func (c *call) makeFolder(ctx context.Context, parent Entry, name drive.Name) (files.Result, error) {
	if parent.Virtual {
		return files.Result{}, refuseLayout()
	}
	return c.opt.Files.Mkdir(ctx, c.who, files.Mkdir{Parent: parent.Node, Name: name, Conflict: drive.ConflictFail, Expect: c.expect})
}

// refuseLayout returns the error for a change of a folder of the layout, such as the list of
// spaces: drive.Forbidden with the reason "layout". IsLayout recognizes it.
func refuseLayout() error { return drive.Fail(drive.Forbidden, "reason", "layout") }

// remove handles DELETE: it moves the node to the trash and replies 204. Layout folders are
// refused; a condition, a lock or a node that changed since it was read fails the request.
func (c *call) remove(ctx context.Context) error {
	e, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	if c.at.isRoot() {
		return refuseLayout()
	}
	if err := c.conditions(ctx, &e); err != nil {
		return err
	}
	if err := checkRemovable(ctx, c, c.at, e); err != nil {
		return err
	}
	if err := expectAt(ctx, c, c.at, &e, tree.SeenNode{}); err != nil {
		return err
	}
	if _, err := c.opt.Files.Trash(ctx, c.who, e.Node, c.expect); err != nil {
		return err
	}
	return c.respondChanged(false)
}

// checkRemovable fails with drive.Locked if the entry at p, something below it, or its folder is
// locked and the request does not submit the token of that lock.
func checkRemovable(ctx context.Context, c *call, p location, e Entry) error {
	if err := c.checkUnlocked(ctx, e, e.IsFolder()); err != nil {
		return err
	}
	parent, err := c.findParent(ctx, p)
	if err != nil {
		return err
	}
	return c.checkUnlocked(ctx, parent, false)
}

// transfer is a checked COPY or MOVE.
type transfer struct {
	from     Entry
	to       location
	parent   Entry  // target folder
	existing *Entry // existing entry at the target; nil: none
	free     bool   // Overwrite: F, so the target must not exist
}

// conflict returns what the use case does with a node at the target, including one that appears
// after the checks: it fails if Overwrite is F, and replaces the node otherwise.
func (t transfer) conflict() drive.Conflict {
	if t.free {
		return drive.ConflictFail
	}
	return drive.ConflictReplace
}

// transfer parses a COPY or MOVE and checks everything that can refuse it. It changes no file; it
// records in c.expect what it read, for the transaction to compare. It fails with drive.NotFound
// for a missing source, drive.ParentGone for a missing target folder, drive.NameTaken for an
// existing target with Overwrite: F, drive.Forbidden or drive.Cycle for a target that is the
// source, below or above it, and with the errors of conditions and locks.
func (c *call) transfer(ctx context.Context) (t transfer, err error) {
	if t.from, err = c.find(ctx, c.at); err != nil {
		return t, err
	}
	if t.to, err = c.destination(); err != nil {
		return t, err
	}
	switch {
	case c.at.isRoot() && c.r.Method == "MOVE", t.from.Virtual, t.to.isRoot():
		return t, refuseLayout()
	case t.to.same(c.at): // RFC 4918 §9.8.5, §9.9.4
		return t, drive.Fail(drive.Forbidden, "reason", "same")
	case t.to.within(c.at):
		return t, drive.Fail(drive.Cycle)
	}
	if err := c.opt.Litter().checkName(t.to.last()); err != nil {
		return t, err
	}
	if err := c.conditions(ctx, &t.from); err != nil {
		return t, err
	}
	if t.parent, err = c.findParent(ctx, t.to); err != nil {
		return t, err
	}
	if t.parent.Virtual {
		return t, refuseLayout()
	}
	if t.existing, err = c.lookup(ctx, t.to); err != nil {
		return t, err
	}
	t.free = strings.EqualFold(strings.TrimSpace(c.r.Header.Get("Overwrite")), "F")
	if t.existing != nil && t.free {
		return t, drive.Fail(drive.NameTaken, "name", string(t.to.last()))
	}
	if t.existing != nil && t.existing.Node == t.from.Node { // the source itself, by another address
		return t, drive.Fail(drive.Forbidden, "reason", "same")
	}
	if t.existing != nil && c.at.within(t.to) { // the target contains the source
		return t, drive.Fail(drive.Cycle)
	}
	if err := checkWritable(ctx, c, t.to, t.existing); err != nil {
		return t, err
	}
	if c.r.Method == "MOVE" {
		if err := checkRemovable(ctx, c, c.at, t.from); err != nil {
			return t, err
		}
	}
	if err := expectAt(ctx, c, c.at, &t.from, tree.SeenNode{}); err != nil {
		return t, err
	}
	return t, expectAt(ctx, c, t.to, t.existing, tree.SeenNode{})
}

// destination parses the Destination header, an absolute URL or a path. It fails with
// drive.BadRequest if the header is absent or not a URL, with the error of CheckHost for another
// host, with status 403 for a URL outside of this view, and with drive.BadName for an invalid name.
func (c *call) destination() (location, error) {
	text := c.r.Header.Get("Destination")
	if text == "" {
		return location{}, drive.BadField("Destination", drive.Required)
	}
	u, err := url.Parse(text)
	if err != nil {
		return location{}, drive.Wrap(err, drive.BadRequest, "field", "Destination", "reason", string(drive.Malformed), "expected", "a URL")
	}
	if err := c.CheckHost(c.r, u); err != nil {
		return location{}, err
	}
	to, err := c.parse(u)
	if drive.IsKind(err, drive.NotFound) { // RFC 4918 §9.8.5, §9.9.4: outside of this view
		err = condition{drive.Wrap(err, drive.Forbidden, "reason", "layout"), http.StatusForbidden, "", ""}
	}
	return to, err
}

// CheckHost returns an error with status 502 if u, the URL of a Destination header, names another
// server (RFC 4918 §9.8.5). A URL without a host passes, as does the host of Options.BaseURL or of
// the request. Without a valid BaseURL every host passes, because a proxy may have changed the
// request's host.
func (h *Head) CheckHost(r *http.Request, u *url.URL) error {
	base, err := url.Parse(h.opt.BaseURL)
	if err != nil || base.Host == "" || u.Host == "" || sameHost(u.Host, base.Host) || sameHost(u.Host, r.Host) {
		return nil //nolint:nilerr // an invalid BaseURL names no host
	}
	err = drive.BadField("Destination", drive.NotAllowed, "allowed", []string{base.Host}, "sent", u.Host)
	return condition{err, http.StatusBadGateway, "", ""}
}

// sameHost reports whether two hosts are equal, ignoring case and the ports 80 and 443.
func sameHost(a, b string) bool {
	bare := func(host string) string { return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80") }
	return strings.EqualFold(bare(a), bare(b))
}

// move handles MOVE. A file moved onto a file adds a version to it (D4). Anything else at the
// target goes to the trash. The errors are those of transfer and moveTo.
func (c *call) move(ctx context.Context) error {
	t, err := c.transfer(ctx)
	if err != nil {
		return err
	}
	if err := c.moveTo(ctx, t); err != nil {
		return err
	}
	return c.respondTransfer(ctx, t)
}

// moveTo executes a MOVE without answering it. A file moved over a file becomes its next version;
// between accounts the move is a copy and a deletion, which copyOrRelocate awaits.
func (c *call) moveTo(ctx context.Context, t transfer) error {
	var err error
	if t.existing != nil && !t.existing.IsFolder() && !t.from.IsFolder() {
		_, err = c.opt.Files.Supersede(ctx, c.who, t.from.Node, t.existing.Node, c.expect)
	} else {
		patch := files.Patch{Parent: t.parent.Node, Name: t.to.last(), Conflict: t.conflict(), Expect: c.expect}
		_, err = c.opt.Files.Patch(ctx, c.who, t.from.Node, patch)
	}
	if files.IsCrossAccount(err) { // between accounts
		return c.copyOrRelocate(ctx, t, c.opt.Files.Copies.MoveAcrossAccounts)
	}
	return err
}

// copy handles COPY and answers it. For a folder with depth 0 it creates an empty folder with the
// properties of the source; otherwise it copies the node with everything below it.
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
		_, err = c.opt.Files.Mkdir(ctx, c.who, files.Mkdir{Parent: t.parent.Node, Name: t.to.last(), Conflict: drive.ConflictFail, Replaces: t.over(), PropertiesFrom: t.from.Node, Expect: c.expect})
	} else {
		err = c.copyOrRelocate(ctx, t, c.opt.Files.Copies.Copy)
	}
	if err != nil {
		return err
	}
	return c.respondTransfer(ctx, t)
}

// over returns the id of the existing node at the target; zero if there is none.
func (t transfer) over() drive.NodeID {
	if t.existing == nil {
		return drive.NodeID{}
	}
	return t.existing.Node
}

// copyOrRelocate calls do, which copies a node with everything below it or moves it to another
// account. A file onto a file adds a version. Anything else at the target goes to the trash once
// the copy is complete. If the server continues the work in the background, it waits for the end as
// await does, and returns the failure of that work.
func (c *call) copyOrRelocate(
	ctx context.Context, t transfer, do func(context.Context, drive.Who, drive.NodeID, files.Copy) (files.Result, error),
) error {
	to := files.Copy{Parent: t.parent.Node, Name: t.to.last(), Conflict: t.conflict(), Properties: true, Join: true, Expect: c.expect}
	if t.existing != nil && !t.from.IsFolder() && t.existing.IsFolder() {
		to.Replaces = t.over()
	}
	made, err := do(ctx, c.who, t.from.Node, to)
	if err == nil && made.Operation != nil {
		err = await(ctx, c, *made.Operation)
	}
	return err
}

const (
	// awaitAtMost bounds the wait of a request for a large copy. It is less than common timeouts of
	// clients and proxies.
	awaitAtMost = 50 * time.Second
	// awaitEvery is the interval at which a running copy or relocation is polled.
	awaitEvery = 200 * time.Millisecond
)

// await polls an operation until it has ended, and returns the error that it ended with. After
// awaitAtMost it fails with drive.InProgress while the operation continues; the client repeats the
// request to wait further. It fails with drive.Unavailable if ctx ends.
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

// respondTransfer answers a COPY or MOVE: 201 with Location if the destination was free, else 204.
func (c *call) respondTransfer(ctx context.Context, t transfer) error {
	if c.view.Describe != nil {
		if e, err := c.find(ctx, t.to); err == nil {
			c.describe(ctx, e)
		}
	}
	if t.existing == nil {
		c.w.Header().Set("Location", c.href(t.to.segments, false))
	}
	return c.respondChanged(t.existing == nil)
}
