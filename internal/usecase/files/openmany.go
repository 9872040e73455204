package files

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
)

// Listed is a file of many that are to be read, at its current version.
type Listed struct {
	Node NodeView // once Show has been asked
	Rev  int64    // of the node
	Size drive.ByteSize
	Err  error // why it cannot be read: as Open

	node tree.Node
	blob content.Blob
	by   drive.Who
}

// List finds what Open would open of many nodes, by few statements, and opens nothing.
func (c *Contents) List(ctx context.Context, who drive.Who, ids []drive.NodeID) ([]Listed, error) {
	q := c.db.For(who.Account)
	nodes, err := c.tree.FindMany(ctx, q, who.Account, ids...)
	if err != nil {
		return nil, err
	}
	blobs := blobsOf(slices.Collect(maps.Values(nodes)))
	slices.SortFunc(blobs, func(x, y drive.BlobID) int { return slices.Compare(x[:], y[:]) })
	found, err := c.content.FindMany(ctx, q, slices.Compact(blobs)...)
	if err != nil {
		return nil, err
	}
	all := make([]Listed, len(ids))
	for i, id := range ids {
		n, there := nodes[id]
		b, stored := found[n.Blob]
		switch {
		case !there:
			all[i].Err = drive.Fail(drive.NotFound)
		case n.IsFolder():
			all[i].Err = drive.Bad("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFile}, "sent", n.Type)
		case !stored: // replaced since its node was read
			all[i].Err = drive.Fail(drive.Unavailable, "retry_after", 1)
		default:
			all[i] = Listed{Rev: n.Rev, Size: b.Size, node: n, blob: b, by: who}
		}
	}
	return all, nil
}

// Show fills in the nodes of what List has found.
func (c *Contents) Show(ctx context.Context, who drive.Who, all []Listed) error {
	nodes := make([]tree.Node, 0, len(all))
	for _, l := range all {
		if l.Err == nil {
			nodes = append(nodes, l.node)
		}
	}
	views, err := c.show.ViewMany(ctx, c.db.For(who.Account), nodes, nil)
	if err != nil {
		return err
	}
	for i := range all {
		if l := &all[i]; l.Err == nil {
			var there bool
			if l.Node, there = views[l.node.ID]; !there {
				l.Err = drive.Fail(drive.NotFound)
			}
		}
	}
	return nil
}

// OpenListed opens a file that List has found, for download as Open does. The caller closes it.
func (c *Contents) OpenListed(ctx context.Context, l Listed) (blob.Object, error) {
	o, err := c.content.Open(ctx, l.blob)
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Wrap(err, drive.Internal) // it breaks P1, and is not the caller's fault
	}
	if err != nil {
		return nil, fmt.Errorf("open the content of node %v: %w", l.node.ID, err)
	}
	return &told{Object: o, tell: func() { c.begun(l.by, l.node.ID) }}, nil
}

// Far reports whether each request to the store takes its time.
func (c *Contents) Far() bool { return c.store.Caps().Far }
