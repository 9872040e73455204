package files

import (
	"context"
	"fmt"
	"sync"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
)

// Download is a version of a file, opened for reading. The caller closes it.
type Download struct {
	blob.Object
	Node    NodeView     // the file as it is now
	Version tree.Version // the one that is read
	Sum     digest.Sum   // BLAKE3 of the content: its ETag
	Digests digest.Set   // all that is known of it, BLAKE3 included

	file    string
	damaged bool
	by      drive.Who
	until   drive.Time // when the signed link ends by which it was opened; zero: there is none
}

// Contents open what files contain. It is safe for concurrent use.
type Contents struct {
	*doors
	show    *display
	content content.Inspector
	store   blob.Store
	now     func() drive.Time
	begun   func(drive.Who, drive.NodeID)
}

// Open opens a file for download, at its current version when version is zero. A folder is
// BadRequest. Bytes that are not what was stored are an error of the server: see
// content.Inspector.Open. It is told of as a download when the first byte is read.
func (c *Contents) Open(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID) (Download, error) {
	d, err := c.OpenToDraw(ctx, who, id, version)
	if err == nil {
		d.Object = &told{Object: d.Object, tell: func() { c.begun(d.by, id) }}
	}
	return d, err
}

// told is content of which somebody is told when its first byte is read.
type told struct {
	blob.Object
	once sync.Once
	tell func()
}

// ReadAt implements io.ReaderAt.
func (o *told) ReadAt(p []byte, at int64) (int, error) {
	if at == 0 && len(p) > 0 {
		o.once.Do(o.tell)
	}
	return o.Object.ReadAt(p, at)
}

// OpenToDraw is Open for a picture that is made of the file: it is not told of.
func (c *Contents) OpenToDraw(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID) (Download, error) {
	p, err := c.enter(ctx, who, id, access.Read)
	if err != nil {
		return Download{}, err
	}
	who = p.Who
	n, err := c.tree.Find(ctx, c.db.For(who.Account), who.Account, id)
	if err != nil {
		return Download{}, err
	}
	if n.IsFolder() {
		return Download{}, drive.Bad("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFile}, "sent", n.Type)
	}
	if version.IsZero() {
		version = n.Version
	}
	d := Download{by: who}
	if d.Node, err = c.show.viewer(c.db.For(who.Account)).as(p).view(ctx, n); err != nil {
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
	// A blob released since then keeps its file for the grace period; one that is missing breaks P1
	// and is not the caller's fault.
	if d.Object, err = c.content.Open(ctx, b); err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = drive.Wrap(err, drive.Internal)
		}
		return Download{}, fmt.Errorf("open the content of version %v: %w", version, err)
	}
	return d, nil
}

// StoreURL returns an address of the store by which anybody can fetch the content of d, with the
// given disposition: for so long, or as long as the signed link that opened it if that is shorter.
// Empty: the store has no such thing for this content, or it was found damaged and must not leave
// without somebody to answer for it.
func (c *Contents) StoreURL(ctx context.Context, d Download, valid time.Duration, disposition string) (string, error) {
	if !c.store.Caps().Links || d.damaged {
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
	c.begun(d.by, d.Node.ID)
	return url, nil
}
