package files

import (
	"context"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

// position returns the text form of a feed position, followed by "~" and the database fingerprint
// if one is set. A restore reuses sequence numbers, so positions from before it must be detected.
func (f *Files) position(p tree.Position) string {
	if f.opt.Fingerprint == "" {
		return p.String()
	}
	return p.String() + "~" + f.opt.Fingerprint
}

// parsePosition parses the text form of a feed position. It fails with Gone {reason: feed-expired}
// if the position was issued before a restore, and with BadRequest if the text is malformed.
func (f *Files) parsePosition(s string) (tree.Position, error) {
	text, fingerprint, marked := strings.Cut(s, "~")
	p, err := tree.ParsePosition(text)
	switch {
	case err != nil || s == "":
	case text == "" || marked && fingerprint == "":
		err = drive.BadField("after", drive.Malformed, "expected", "what the last page gave as next")
	case fingerprint != f.opt.Fingerprint:
		err = drive.Fail(drive.Gone, "reason", "feed-expired")
	}
	return p, err
}

// change returns the view of one feed entry. If the node's folder was deleted after the feed was
// read, or an operation hides the node, the view has an empty path; a later entry reports the
// deletion.
func (b *viewBuilder) change(ctx context.Context, c tree.Change) (ChangeView, error) {
	if !c.Deleted.IsZero() {
		return ChangeView{Seq: c.Seq, Deleted: &c.Deleted}, nil
	}
	n := c.Node
	hidden := !n.Operation.IsZero()
	if !n.IsRoot() {
		_, err := b.folder(ctx, n.Parent)
		if drive.IsKind(err, drive.NotFound) {
			hidden, b.folders[n.Parent] = true, tree.Location{}
		}
	}
	view, err := b.view(ctx, n)
	if view.TrashedAt = nil; n.Trashed != 0 {
		view.TrashedAt = &n.Trashed
	}
	if hidden {
		view.Path = ""
		delete(b.folders, n.Parent)
	}
	return ChangeView{Seq: c.Seq, Node: &view}, err
}
