package contents

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/move/migrate"
)

// OldPlace is the store of contents before the migration, opened for reading and deleting. The
// caller must call Close.
type OldPlace struct {
	Side  Side
	Close func() error
}

// DropOptions configures the deletion of contents at the old place, after the installation uses
// only the new one.
type DropOptions struct {
	// Open opens the old place, as named by the migration, and verifies that it belongs to this
	// installation. It returns WrongState with the reason if it cannot, such as a place on another
	// machine.
	Open func(ctx context.Context, place string) (OldPlace, error)
	// Ready and Note are DropReady and NoteContents of migrate.Migration.
	Ready func(ctx context.Context) (bool, error)
	Note  func(ctx context.Context, change func(*migrate.OldContents)) error
}

// errCannotOpenOld reports that this process cannot open the old place; another process may.
var errCannotOpenOld = errors.New("the old place of contents cannot be opened here")

// GateDrop returns the gate "old-contents", which is open if the old place can be opened and is not
// the place in use. It is closed while the pair has two sides. An error means that the place could
// not be checked.
func (c *Copier) GateDrop(ctx context.Context) ([]migrate.Gate, error) {
	g := migrate.Gate{Name: "old-contents"}
	state := c.opt.State()
	if _, both := c.opt.Pair.Attached(); both {
		g.Detail = "start the instances with the new settings first"
		return []migrate.Gate{g}, nil
	}
	old, err := c.openOld(ctx, state)
	switch {
	case drive.IsKind(err, drive.WrongState):
		g.Detail = reason(err)
		return []migrate.Gate{g}, nil
	case err != nil:
		return nil, err
	}
	g.OK, g.Detail = true, "contents at "+old.Side.Name+" are this installation's, and the place is not the one in use"
	return []migrate.Gate{g}, old.Close()
}

// reason returns the text of an error without its kind.
func reason(err error) string {
	if e, ok := errors.AsType[*drive.Error](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// openOld opens the old place, which the caller must close. It returns WrongState if it is not
// known where the old contents are, or if that is the place in use.
func (c *Copier) openOld(ctx context.Context, state migrate.State) (OldPlace, error) {
	if state.OldContents == "" {
		return OldPlace{}, drive.Wrap(errors.New("it was not noted where contents were: the migration began with an older release; remove them by hand"), drive.WrongState)
	}
	old, err := c.opt.Drop.Open(ctx, state.OldContents)
	if err != nil {
		return OldPlace{}, err
	}
	if err := c.checkDistinct(ctx, old.Side); err != nil {
		return OldPlace{}, errors.Join(err, old.Close())
	}
	return old, nil
}

// checkDistinct returns WrongState if a place is the one in use under another name, such as a link,
// a mount or the same bucket: it stores an object at one and looks for it at the other.
func (c *Copier) checkDistinct(ctx context.Context, old Side) error {
	now := c.opt.Pair.Side(First)
	name, err := putProbe(ctx, now)
	if err != nil {
		return err
	}
	_, err = old.Store.Stat(ctx, name)
	switch {
	case drive.IsKind(err, drive.NotFound):
		err = nil
	case err == nil:
		err = drive.Wrap(errors.New("the old place of contents is the one in use: "+now.Name), drive.WrongState)
	}
	return errors.Join(err, now.Store.Remove(ctx, name))
}

// dropOnce deletes the contents at the old place that the new one has or that no row names.
// Contents that the new place lacks or has differently are kept and counted. Objects with other
// names, staged uploads and the quarantine stay, too. It is idempotent and can be interrupted.
func (c *Copier) dropOnce(ctx context.Context, state migrate.State) error {
	if state.OldContentsDeleted || state.Contents == "" || state.Paused {
		return nil
	}
	if _, both := c.opt.Pair.Attached(); both {
		return nil
	}
	if ok, err := c.opt.Drop.Ready(ctx); err != nil || !ok {
		return err
	}
	old, err := c.openOld(ctx, state)
	if err != nil {
		return errors.Join(errCannotOpenOld, err)
	}
	var page []blob.Entry
	flush := func() error {
		now := c.opt.State()
		if now.ID != state.ID || !now.Dropping || now.Paused {
			return errDropStopped
		}
		err := c.dropPage(ctx, old.Side, page, state.VerifyPercent)
		page = page[:0]
		return err
	}
	err = old.Side.Store.List(ctx, func(s blob.Entry) error {
		if s.Name == "" {
			return nil
		}
		if page = append(page, s); len(page) < pageSize {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = c.opt.Drop.Note(ctx, func(o *migrate.OldContents) { o.Ended = true })
	}
	if errors.Is(err, errDropStopped) {
		err = nil
	}
	return errors.Join(err, old.Close())
}

// errDropStopped reports that the migration was paused or replaced.
var errDropStopped = errors.New("the migration is paused, or is another")

// dropPage deletes those contents of a page at the old place that need not stay, and stores the
// progress. It deletes them together, because adjacent contents may share a pack, an object that
// holds many of them.
func (c *Copier) dropPage(ctx context.Context, old Side, page []blob.Entry, deep int) error {
	var mu sync.Mutex
	var did migrate.OldContents
	goes := map[string]drive.ByteSize{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.workers())
	for _, s := range page {
		g.Go(func() error {
			kept, err := c.keepReason(gctx, s, deep)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
			case kept != "":
				did.Kept++
				did.Worst = kept
			default:
				goes[s.Name] = s.Size
			}
			return err
		})
	}
	err := g.Wait()
	if len(goes) > 0 {
		gone, failed := old.Store.RemoveAll(ctx, slices.Sorted(maps.Keys(goes)))
		for _, name := range gone {
			did.Removed++
			did.Bytes += goes[name]
		}
		err = errors.Join(err, failed)
	}
	if did == (migrate.OldContents{}) {
		return err
	}
	return errors.Join(err, c.opt.Drop.Note(ctx, func(o *migrate.OldContents) {
		o.Removed, o.Bytes, o.Kept = o.Removed+did.Removed, o.Bytes+did.Bytes, o.Kept+did.Kept
		if did.Worst != "" {
			o.Worst = did.Worst
		}
	}))
}

// keepReason returns why a content must stay at the old place: a row names it and the new place
// does not have it. Empty: it can be deleted.
func (c *Copier) keepReason(ctx context.Context, s blob.Entry, deep int) (kept string, err error) {
	r, found, err := c.find(ctx, s.Name)
	if err != nil || !found {
		return "", err
	}
	if r.bad != "" {
		return r.bad, nil
	}
	err = c.opt.Pair.Check(ctx, First, r.content, inSample(r.content, deep), c.waitPace)
	if wrong, ok := errors.AsType[*MismatchError](err); ok {
		return wrong.Error(), nil
	}
	return "", err
}
