package files

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
)

// Listed is one file of a batch download, at its current version.
type Listed struct {
	Node NodeView // set by Show
	Rev  int64    // of the node
	Size drive.ByteSize
	Err  error // why the file cannot be read, as Open would fail; nil: readable

	node tree.Node
	blob content.Blob
	by   drive.Who
}

// List looks up many files for reading with few statements and opens none. The result has one entry
// per id, in the order of ids; an entry's Err says why that file cannot be read.
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
			all[i].Err = drive.BadField("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFile}, "sent", n.Type)
		case !stored: // the file was replaced after its node was read
			all[i].Err = drive.Fail(drive.Unavailable, "retry_after", 1)
		default:
			all[i] = Listed{Rev: n.Rev, Size: b.Size, node: n, blob: b, by: who}
		}
	}
	return all, nil
}

// Show sets Node of each entry that List returned without Err. A node deleted since gets Err
// NotFound.
func (c *Contents) Show(ctx context.Context, who drive.Who, all []Listed) error {
	nodes := make([]tree.Node, 0, len(all))
	for _, l := range all {
		if l.Err == nil {
			nodes = append(nodes, l.node)
		}
	}
	views, err := c.presenter.ViewMany(ctx, c.db.For(who.Account), nodes, nil)
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

// OpenListed opens a file that List returned. The caller must close the object. A download is
// reported to Options.OnDownload when the first byte is read. Content that is missing or damaged in
// the store is Internal.
func (c *Contents) OpenListed(ctx context.Context, l Listed) (blob.Object, error) {
	o, err := c.content.Open(ctx, l.blob)
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Wrap(err, drive.Internal) // a missing file violates P1 and is a server error
	}
	if err != nil {
		return nil, fmt.Errorf("open the content of node %v: %w", l.node.ID, err)
	}
	return &notifyingObject{Object: o, notify: func() { c.onDownload(l.by, l.node.ID) }}, nil
}

// HighLatency reports whether each request to the store has high latency, so that callers should
// read ahead.
func (c *Contents) HighLatency() bool { return c.store.Caps().HighLatency }
