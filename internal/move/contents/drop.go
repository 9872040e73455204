package contents

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/move/migrate"
)

// Old is the place that was left, open.
type Old struct {
	Side  Side
	Close func() error
}

// Drop is what removing contents from the place that was left needs. It is done when the
// installation runs from the new place alone.
type Drop struct {
	// Open opens the place that was left, as the migration names it, after it has proved that the
	// place is this installation's. WrongState tells why it cannot: that it is on another machine,
	// for one.
	Open func(ctx context.Context, place string) (Old, error)
	// Ready and Note are DropReady and NoteContents of the migration.
	Ready func(ctx context.Context) (bool, error)
	Note  func(ctx context.Context, change func(*migrate.OldContents)) error
}

// errElsewhere says that this process cannot open the place that was left; another one may.
var errElsewhere = errors.New("the old place of contents cannot be opened here")

// GateDrop implements migrate.Contents.
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

// reason is an error without the word for its kind.
func reason(err error) string {
	if e, ok := errors.AsType[*drive.Error](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// openOld opens the place that was left, and proves that it is not the one in use.
func (c *Copier) openOld(ctx context.Context, state migrate.State) (Old, error) {
	if state.OldContents == "" {
		return Old{}, drive.Wrap(errors.New("it was not noted where contents were: the migration began with an older release; remove them by hand"), drive.WrongState)
	}
	old, err := c.opt.Drop.Open(ctx, state.OldContents)
	if err != nil {
		return Old{}, err
	}
	if err := c.apart(ctx, old.Side); err != nil {
		return Old{}, errors.Join(err, old.Close())
	}
	return old, nil
}

// apart proves that a place is not the one in use, whatever their names say: what is put at one is
// not seen at the other. Two names may mean one directory (a link, a mount) or one bucket.
func (c *Copier) apart(ctx context.Context, old Side) error {
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

// dropOnce goes through all contents at the place that was left, and removes those that the new one
// has, and those that nobody has any more. Contents that the new place does not have as their rows
// tell stay, and are counted; so does what does not follow the rules of names, what is staged, and
// the quarantine. Wherever it stops, the next one finds less.
func (c *Copier) dropOnce(ctx context.Context, state migrate.State) error {
	if state.OldGone || state.Contents == "" || state.Paused {
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
		return errors.Join(errElsewhere, err)
	}
	var page []blob.Stray
	flush := func() error {
		now := c.opt.State()
		if now.ID != state.ID || !now.Dropping || now.Paused {
			return errStopped
		}
		err := c.dropPage(ctx, old.Side, page, state.Deep)
		page = page[:0]
		return err
	}
	err = old.Side.Store.List(ctx, func(s blob.Stray) error {
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
	if errors.Is(err, errStopped) {
		err = nil
	}
	return errors.Join(err, old.Close())
}

var errStopped = errors.New("the migration is paused, or is another")

// dropPage removes together what may go of a page: contents that follow each other may lie
// together.
func (c *Copier) dropPage(ctx context.Context, old Side, page []blob.Stray, deep int) error {
	var mu sync.Mutex
	var did migrate.OldContents
	goes := map[string]drive.ByteSize{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.workers())
	for _, s := range page {
		g.Go(func() error {
			kept, err := c.keeps(gctx, s, deep)
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

// keeps says why content stays at the old place: a row tells of it, and the new place does not have
// it. Empty: it may go.
func (c *Copier) keeps(ctx context.Context, s blob.Stray, deep int) (kept string, err error) {
	r, found, err := c.find(ctx, s.Name)
	if err != nil || !found {
		return "", err
	}
	if r.bad != "" {
		return r.bad, nil
	}
	err = c.opt.Pair.Check(ctx, First, r.content, sampled(r.content, deep), c.pace)
	if wrong, ok := errors.AsType[*MismatchError](err); ok {
		return wrong.Error(), nil
	}
	return "", err
}
