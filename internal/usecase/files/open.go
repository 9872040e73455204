package files

import (
	"context"
	"fmt"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
)

// Download is a version of a file, opened for reading. The caller must close it.
type Download struct {
	blob.Object
	Node    NodeView     // the file in its current state
	Version tree.Version // the version that is read
	Sum     digest.Sum   // BLAKE3 of the content, used as its ETag
	Digests digest.Set   // all known digests, BLAKE3 included

	file    string
	damaged bool
	by      drive.Who
	until   drive.Time // expiry of the signed link that opened it; zero: no link
}

// Contents opens the content of files. It is safe for concurrent use.
type Contents struct {
	*authorizer
	presenter  *presenter
	content    content.Inspector
	store      blob.Store
	now        func() drive.Time
	onDownload func(drive.Who, drive.NodeID)
}

// Open opens a version of a file for download; a zero version is the current one. It reports a
// download to Options.OnDownload when the first byte is read. A folder is BadRequest. Content that
// is missing or damaged in the store is Internal; see content.Inspector.Open.
func (c *Contents) Open(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID) (Download, error) {
	d, err := c.OpenForPreview(ctx, who, id, version)
	if err == nil {
		d.Object = &notifyingObject{Object: d.Object, notify: func() { c.onDownload(d.by, id) }}
	}
	return d, err
}

// notifyingObject calls notify once, when its first byte is read.
type notifyingObject struct {
	blob.Object
	once   sync.Once
	notify func()
}

// ReadAt reads from the Object. Before the first non-empty read at offset 0 it calls notify, once
// in the life of o.
func (o *notifyingObject) ReadAt(p []byte, at int64) (int, error) {
	if at == 0 && len(p) > 0 {
		o.once.Do(o.notify)
	}
	return o.Object.ReadAt(p, at)
}

// OpenForPreview opens content to generate a preview image. Unlike Open it does not report a
// download. The caller must close the Download.
func (c *Contents) OpenForPreview(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID) (Download, error) {
	p, err := c.authorize(ctx, who, id, access.Read)
	if err != nil {
		return Download{}, err
	}
	who = p.Who
	n, err := c.tree.Find(ctx, c.db.For(who.Account), who.Account, id)
	if err != nil {
		return Download{}, err
	}
	if n.IsFolder() {
		return Download{}, drive.BadField("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFile}, "sent", n.Type)
	}
	if version.IsZero() {
		version = n.Version
	}
	d := Download{by: who}
	if d.Node, err = c.presenter.builder(c.db.For(who.Account)).forPass(p).view(ctx, n); err != nil {
		return Download{}, err
	}
	if d.Version, err = c.tree.FindVersion(ctx, c.db.For(who.Account), id, version); err != nil {
		return Download{}, err
	}
	b, err := c.content.Find(ctx, c.db.For(who.Account), d.Version.Blob)
	if err != nil {
		return Download{}, err
	}
	d.Sum, d.file, d.damaged = b.Sum, b.File, b.Damaged != 0
	if d.Digests, err = c.content.Aliases(ctx, c.db.For(who.Account), b.ID); err != nil {
		return Download{}, err
	}
	// A blob released since then keeps its file for the grace period. A missing file violates P1
	// and is a server error, not the caller's.
	if d.Object, err = c.content.Open(ctx, b); err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = drive.Wrap(err, drive.Internal)
		}
		return Download{}, fmt.Errorf("open the content of version %v: %w", version, err)
	}
	return d, nil
}

// StoreURL returns a presigned URL by which anyone can fetch the content of d from the store, valid
// for the given time but no longer than the signed link that opened d. It returns "" if the store
// has no presigned URLs or the content is damaged; the caller then serves the bytes itself.
// Returning a URL reports a download.
func (c *Contents) StoreURL(ctx context.Context, d Download, valid time.Duration, disposition string) (string, error) {
	if !c.store.Caps().Presigns || d.damaged {
		return "", nil
	}
	if d.until != 0 {
		valid = max(min(valid, d.until.Sub(c.now())), time.Second)
	}
	url, err := c.store.Presign(ctx, d.file, blob.Link{Valid: valid, ContentType: d.Version.Mime, Disposition: disposition})
	if err != nil {
		return "", fmt.Errorf("make an address for version %v: %w", d.Version.ID, err)
	}
	if url == "" {
		return "", nil
	}
	c.onDownload(d.by, d.Node.ID)
	return url, nil
}
