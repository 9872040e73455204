package contents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// brought is what became of a row of a page.
type brought struct {
	row row
	res result
	err error // it was not brought; res is empty
}

// bring syncs a page of rows, some at once. What becomes of one does not concern the others.
func (c *Copier) bring(ctx context.Context, page []row, deep int) []brought {
	all := make([]brought, len(page))
	var jobs sync.WaitGroup
	free := make(chan struct{}, c.workers())
	for i, r := range page {
		free <- struct{}{}
		jobs.Go(func() {
			defer func() { <-free }()
			res, err := c.one(ctx, r, deep)
			all[i] = brought{r, res, err}
		})
	}
	jobs.Wait()
	return all
}

// workers is how many contents are on their way at once.
func (c *Copier) workers() int {
	if c.opt.Workers > 0 {
		return c.opt.Workers
	}
	if c.opt.Pair.Blobs.Caps().Far { // small ones wait for requests nearly all of the time
		return 16
	}
	return 4
}

// maxTries is how often in a row a content is tried that cannot be brought although the stores
// answer: some seconds, in which a store that stumbles has recovered.
const maxTries = 3

// judge finds out whether what could not be brought is the stores' fault or of these contents
// alone: a file that the disk cannot read, an object that the store has lost. Of the latter nothing
// waits: they count as bad after some tries. An error says that the page must be done again.
func (c *Copier) judge(ctx context.Context, page []brought) (again error) {
	for _, b := range page {
		again = errors.Join(again, b.err)
	}
	if again != nil {
		if err := c.answers(ctx); err != nil {
			return errors.Join(again, err)
		}
	}
	again = nil
	for i, b := range page {
		if b.err == nil {
			continue
		}
		if c.tries[b.row.id]++; c.tries[b.row.id] < maxTries || !ofContent(b.err) {
			again = b.err
			continue
		}
		page[i].res, page[i].err = c.wrong(b.row, b.err), nil
	}
	if again == nil {
		clear(c.tries)
	}
	return again
}

// contentError is an error of the stores about one content.
type contentError struct{ error }

func (e contentError) Unwrap() error { return e.error }

// ofContent reports whether it may be the fault of a content that it was not brought. Where the
// place is full it is not, nor where the database has not answered.
func ofContent(err error) bool {
	_, ok := errors.AsType[contentError](err)
	return ok && !drive.IsKind(err, drive.DiskFull)
}

// answers asks both sides for something that they do not have, and lets the follower store
// something.
func (c *Copier) answers(ctx context.Context) error {
	s := c.opt.Pair.now.Load()
	if s.follower() == nil {
		return errStopped
	}
	name, err := putProbe(ctx, s.follower())
	if err == nil {
		_, err = s.leader().Store.Stat(ctx, name)
		if drive.IsKind(err, drive.NotFound) {
			err = nil
		}
		err = errors.Join(err, s.follower().Store.Remove(ctx, name))
	}
	return err
}

// putProbe puts something small, to be removed again. What a crash leaves of it "admin fsck" finds.
func putProbe(ctx context.Context, at *Side) (name string, err error) {
	const probe = "probe"
	name = drive.NewID[drive.UploadID]().String()
	body := blob.NewBody(strings.NewReader(probe), blob.BodyOptions{Size: drive.ByteSize(len(probe))})
	if _, err := at.Store.Receive(ctx, name, body); err != nil {
		return "", fmt.Errorf("put a probe at %s: %w", at.Name, err)
	}
	return name, nil
}

// result is what became of one content.
type result struct {
	copied bool
	bad    string // what is wrong with it
}

// one brings one content, and compares its digest on the side that is new where it is among the
// deep percent.
func (c *Copier) one(ctx context.Context, r row, deep int) (result, error) {
	if r.bad != "" {
		return c.wrong(r, errors.New(r.bad)), nil
	}
	deeply := sampled(r.content, deep)
	outcome, err := c.opt.Pair.Sync(ctx, r.content, deeply, c.pace)
	if err == nil && outcome == Nowhere {
		return c.nowhere(ctx, r)
	}
	if err == nil && outcome == There && deeply && c.opt.Pair.now.Load().lead == Second { // else Sync has compared it
		err = c.opt.Pair.Check(ctx, Second, r.content, true, c.pace)
	}
	if wrong, ok := errors.AsType[*MismatchError](err); ok {
		return c.wrong(r, wrong), nil
	}
	if err != nil {
		return result{}, contentError{err}
	}
	if outcome == Copied {
		c.note(r.content.Size)
	}
	return result{copied: outcome == Copied}, nil
}

// wrong is the result of content that cannot be brought. Of content that is marked as damaged it is
// known, and there is nothing to be brought.
func (c *Copier) wrong(r row, why error) result {
	if r.damaged {
		return result{}
	}
	c.opt.Log.Error("content that is not what its row tells of", "file", r.content.Name, "error", why)
	return result{bad: why.Error()}
}

// nowhere judges content that neither side has: its row has gone by now, or it is lost.
func (c *Copier) nowhere(ctx context.Context, r row) (result, error) {
	_, found, err := c.find(ctx, r.content.Name)
	if err != nil || !found || r.damaged {
		return result{}, err
	}
	return result{bad: "content " + r.content.Name + " is at neither side"}, nil
}

// sampled says whether the bytes of content are read again. The last byte of a digest is as good as
// a die, and the same each time.
func sampled(c Content, percent int) bool {
	return int(c.Sum[len(c.Sum)-1])*100 < percent*256
}
