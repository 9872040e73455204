package contents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// pageResult is the outcome of one row of a page.
type pageResult struct {
	row row
	res result
	err error // why the content was not copied; res is then empty
}

// syncPage syncs the contents of a page concurrently and returns a result for each, in their order,
// when it has them all. A failure of one does not affect the others.
func (c *Copier) syncPage(ctx context.Context, page []row, deep int) []pageResult {
	all := make([]pageResult, len(page))
	var jobs sync.WaitGroup
	free := make(chan struct{}, c.workers())
	for i, r := range page {
		free <- struct{}{}
		jobs.Go(func() {
			defer func() { <-free }()
			res, err := c.syncOne(ctx, r, deep)
			all[i] = pageResult{r, res, err}
		})
	}
	jobs.Wait()
	return all
}

// workers returns how many contents are synced concurrently: as configured, or by the latency of
// the store.
func (c *Copier) workers() int {
	if c.opt.Workers > 0 {
		return c.opt.Workers
	}
	if c.opt.Pair.Blobs.Caps().HighLatency { // small contents mostly wait for requests
		return 16
	}
	return 4
}

// maxTries is the number of consecutive failed tries after which a content counts as bad although
// both stores answer. They take some seconds, so that a store can recover.
const maxTries = 3

// classifyFailures decides whether failures of a page are caused by the stores or by single
// contents, such as an unreadable file or a lost object. A single content counts as bad after
// maxTries. If classifyFailures returns an error, the caller retries the page.
func (c *Copier) classifyFailures(ctx context.Context, page []pageResult) (again error) {
	for _, b := range page {
		again = errors.Join(again, b.err)
	}
	if again != nil {
		if err := c.probeSides(ctx); err != nil {
			return errors.Join(again, err)
		}
	}
	again = nil
	for i, b := range page {
		if b.err == nil {
			continue
		}
		if c.tries[b.row.id]++; c.tries[b.row.id] < maxTries || !isContentError(b.err) {
			again = b.err
			continue
		}
		page[i].res, page[i].err = c.badResult(b.row, b.err), nil
	}
	if again == nil {
		clear(c.tries)
	}
	return again
}

// contentError is an error of a store about one content.
type contentError struct{ error }

// Unwrap returns the error of the content.
func (e contentError) Unwrap() error { return e.error }

// isContentError reports whether err may be caused by a single content. A full disk and errors of
// the database are not.
func isContentError(err error) bool {
	_, ok := errors.AsType[contentError](err)
	return ok && !drive.IsKind(err, drive.DiskFull)
}

// probeSides probes both sides: it stores a small object at the follower, looks for it at the
// leader, and deletes it.
func (c *Copier) probeSides(ctx context.Context) error {
	s := c.opt.Pair.current.Load()
	if s.follower() == nil {
		return errDropStopped
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

// putProbe stores a small object, which the caller deletes. After a crash, "admin fsck" finds it as
// a stray.
func putProbe(ctx context.Context, at *Side) (name string, err error) {
	const probe = "probe"
	name = drive.NewID[drive.UploadID]().String()
	body := blob.NewBody(strings.NewReader(probe), blob.BodyOptions{Size: drive.ByteSize(len(probe))})
	if _, err := at.Store.PutAtomic(ctx, name, body); err != nil {
		return "", fmt.Errorf("put a probe at %s: %w", at.Name, err)
	}
	return name, nil
}

// result tells what syncing one content did.
type result struct {
	copied bool
	bad    string // why the content is bad; empty: it is not
}

// syncOne syncs one content. If the content is in the sample of deep percent, it also verifies the
// digest on the new side.
func (c *Copier) syncOne(ctx context.Context, r row, deep int) (result, error) {
	if r.bad != "" {
		return c.badResult(r, errors.New(r.bad)), nil
	}
	deeply := inSample(r.content, deep)
	outcome, err := c.opt.Pair.Sync(ctx, r.content, deeply, c.waitPace)
	if err == nil && outcome == OnNeither {
		return c.missingResult(ctx, r)
	}
	if err == nil && outcome == OnBoth && deeply && c.opt.Pair.current.Load().lead == Second { // otherwise Sync has verified it
		err = c.opt.Pair.Check(ctx, Second, r.content, true, c.waitPace)
	}
	if wrong, ok := errors.AsType[*MismatchError](err); ok {
		return c.badResult(r, wrong), nil
	}
	if err != nil {
		return result{}, contentError{err}
	}
	if outcome == Copied {
		c.countCopied(r.content.Size)
	}
	return result{copied: outcome == Copied}, nil
}

// badResult returns the result for a content that cannot be synced. A content marked as damaged is
// known already and not bad.
func (c *Copier) badResult(r row, why error) result {
	if r.damaged {
		return result{}
	}
	c.opt.Log.Error("content does not match its row and is not copied; the migration cannot finish before it is repaired", "file", r.content.Name, "error", why)
	return result{bad: why.Error()}
}

// missingResult returns the result for a content that is on neither side: its row is gone, or the
// content is lost.
func (c *Copier) missingResult(ctx context.Context, r row) (result, error) {
	_, found, err := c.find(ctx, r.content.Name)
	if err != nil || !found || r.damaged {
		return result{}, err
	}
	return result{bad: "content " + r.content.Name + " is at neither side"}, nil
}

// inSample reports whether a content is in the sample of percent contents whose bytes are read
// again. The choice depends on the digest, so it is stable.
func inSample(c Content, percent int) bool {
	return int(c.Sum[len(c.Sum)-1])*100 < percent*256
}
