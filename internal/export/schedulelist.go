package export

import (
	"context"
	"errors"
	"fmt"
	"io"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
)

// MaxManifest is the longest list in bytes: about three kilobytes for each of 10,000 entries.
const MaxManifest = 32 * drive.MiB

// errListDamaged reports that the stored content of a list is missing, unreadable or changed.
var errListDamaged = errors.New("the content of the list is damaged")

// readList returns a file of the account's drive, and the items of the list that is its current
// content. It reads through text, which counts the memory; the caller closes text when the items
// are no longer needed. It returns NotFound for a missing file, WrongState for one in the trash,
// BadRequest for a folder or an invalid list, TooLarge above MaxManifest, WrongState with
// errListDamaged for damaged content, Unavailable without memory or if the content changes
// meanwhile, and the errors of the store.
func (c *calendar) readList(ctx context.Context, account drive.AccountID, id drive.NodeID, text *LimitedBody) (n tree.Node, items []Item, err error) {
	if n, err = c.opt.Tree.Find(ctx, c.opt.DB, account, id); err != nil {
		return n, nil, err
	}
	_, live, err := c.opt.Tree.PathOf(ctx, c.opt.DB, id)
	switch {
	case err != nil:
		return n, nil, err
	case !live:
		return n, nil, drive.Fail(drive.WrongState, "state", "trashed")
	case n.IsFolder():
		return n, nil, drive.BadField("list", drive.NotAllowed, "allowed", []string{"file"}, "sent", "folder")
	case n.Size > MaxManifest:
		return n, nil, drive.Fail(drive.TooLarge, "limit", int64(MaxManifest), "sent", int64(n.Size))
	}
	b, err := c.opt.Content.Find(ctx, c.opt.DB, n.Blob)
	switch {
	case drive.IsKind(err, drive.NotFound): // the list was replaced since
		return n, nil, drive.Wrap(err, drive.Unavailable)
	case err != nil:
		return n, nil, err
	case b.Damaged != 0:
		return n, nil, drive.Wrap(errListDamaged, drive.WrongState, "state", reasonDamaged)
	}
	items, err = c.readItems(ctx, b, text)
	if _, unsound := errors.AsType[*content.UnsoundError](err); unsound || drive.IsKind(err, drive.NotFound) {
		err = c.classifyDamage(ctx, b, err)
	}
	return n, items, err
}

// readItems reads the items of the list that is the content of b, through text, and verifies the
// content. An error of the memory or of the store comes before that of ReadManifest, which may take
// the missing text for an invalid line. Missing content is NotFound.
func (c *calendar) readItems(ctx context.Context, b content.Blob, text *LimitedBody) ([]Item, error) {
	inspector := content.Inspector{Content: c.opt.Content, DB: c.opt.DB, Store: c.opt.Store, Log: c.log}
	obj, err := inspector.Open(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("open a list: %w", err)
	}
	src := &listSource{obj: obj}
	text.src = io.NewSectionReader(src, 0, int64(obj.Size()))
	items, err := ReadManifest(text, c.MaxList())
	for _, first := range []error{text.Err(), src.err} {
		if first != nil {
			err = first
		}
	}
	return items, errors.Join(err, obj.Close())
}

// classifyDamage converts cause, the error of reading the content of b, which is missing or
// unsound. If the blob was deleted or repaired meanwhile, the result is Unavailable, so that the
// caller retries; else WrongState with errListDamaged.
func (c *calendar) classifyDamage(ctx context.Context, b content.Blob, cause error) error {
	now, err := c.opt.Content.Find(ctx, c.opt.DB, b.ID)
	switch {
	case err != nil && !drive.IsKind(err, drive.NotFound):
		return errors.Join(cause, err)
	case err != nil || now.File != b.File:
		return drive.Wrap(cause, drive.Unavailable)
	}
	return drive.Wrap(errors.Join(errListDamaged, cause), drive.WrongState, "state", reasonDamaged)
}

// listSource reads an object and stores in err the first error of the store, which a decoder may
// hide.
type listSource struct {
	obj blob.Object
	err error
}

// ReadAt reads from the object, and keeps its error unless that is io.EOF.
func (s *listSource) ReadAt(p []byte, at int64) (int, error) {
	n, err := s.obj.ReadAt(p, at)
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}
