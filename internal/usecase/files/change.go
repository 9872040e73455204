package files

import (
	"context"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// position is the text form of a position in a feed, with the fingerprint of the database behind
// it: after a restore the numbers of changes that were lost are given to others.
func (f *Files) position(p tree.Position) string {
	if f.opt.Fingerprint == "" {
		return p.String()
	}
	return p.String() + "~" + f.opt.Fingerprint
}

// parsePosition reads the text form; one of before a restore is Gone {reason: feed-expired}.
func (f *Files) parsePosition(s string) (tree.Position, error) {
	text, fingerprint, marked := strings.Cut(s, "~")
	p, err := tree.ParsePosition(text)
	switch {
	case err != nil || s == "":
	case text == "" || marked && fingerprint == "":
		err = drive.Bad("after", drive.Malformed, "expected", "what the last page gave as next")
	case fingerprint != f.opt.Fingerprint:
		err = drive.Fail(drive.Gone, "reason", "feed-expired")
	}
	return p, err
}

// change shows one entry of the feed. Between the reading of the feed and this a node's folder or
// content may have gone: the node is then shown without, and the entry that follows tells why.
func (v *viewer) change(ctx context.Context, c tree.Change) (ChangeView, error) {
	if !c.Deleted.IsZero() {
		return ChangeView{Seq: c.Seq, Deleted: &c.Deleted}, nil
	}
	n := c.Node
	hidden := !n.Operation.IsZero()
	if !n.IsRoot() {
		_, err := v.folder(ctx, n.Parent)
		if drive.IsKind(err, drive.NotFound) {
			hidden, v.folders[n.Parent] = true, tree.Spot{}
		}
	}
	view, err := v.view(ctx, n)
	if view.TrashedAt = nil; n.Trashed != 0 {
		view.TrashedAt = &n.Trashed
	}
	if hidden {
		view.Path = ""
		delete(v.folders, n.Parent)
	}
	return ChangeView{Seq: c.Seq, Node: &view}, err
}
