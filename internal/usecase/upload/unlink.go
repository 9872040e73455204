package upload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

const (
	// unlinkers is how many batches an instance works on at the same time: while one waits for the
	// store another is at the database.
	unlinkers = 2
	// minUnlinkHold and maxUnlinkHold bound for how long nobody else gets a batch, which is as long
	// as released files are kept anyway. A batch takes a second, or minutes at a store that is
	// throttled; who dies in the middle of it leaves its files for so long.
	minUnlinkHold = 30 * time.Second
	maxUnlinkHold = 10 * time.Minute
	// unlinkLook is the longest pause between two looks for what is due: other instances release
	// files, too. A look is one row of an index.
	unlinkLook = time.Minute
)

// Unlinked counts what became of released files since the start.
type Unlinked struct {
	Files  atomic.Int64
	Bytes  atomic.Int64
	Failed atomic.Int64 // deletions that will be tried again
}

func (s *Sessions) unlinkHold() time.Duration {
	return min(max(s.opt.BlobGrace, minUnlinkHold), maxUnlinkHold)
}

// RunUnlink deletes released files when their grace is over, until ctx is done. Each instance that
// works does so, and they share what there is to do: see package content. What fails is logged and
// tried again, for as long as it takes.
func (s *Sessions) RunUnlink(ctx context.Context) error {
	var all errgroup.Group
	for range unlinkers {
		all.Go(func() error {
			s.keepUnlinking(ctx)
			return nil
		})
	}
	return all.Wait()
}

func (s *Sessions) keepUnlinking(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		next, err := s.Unlink(ctx)
		if failures++; err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			next = min(time.Second<<min(failures, 6), unlinkLook)
			s.opt.Log.WarnContext(ctx, "released files were not deleted and will be tried again", "in", next, "error", err)
		}
		wake := time.NewTimer(next + rand.N(next/4+1)) // instances that look at the same moment find the same rows
		select {
		case <-wake.C:
		case <-ctx.Done():
			wake.Stop()
		}
	}
}

// Unlink deletes what is due, and returns after how long to look again. After an error some of it
// may be deleted.
func (s *Sessions) Unlink(ctx context.Context) (next time.Duration, err error) {
	if s.opt.Restored {
		return unlinkLook, nil
	}
	for {
		n, err := s.unlinkSome(ctx)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return s.nextUnlink(ctx)
		}
	}
}

// nextUnlink is when the next file is due, but not so soon that looking is all there is to do, nor
// so late that what others release in between waits for long. What is due and was not taken is in
// the hands of somebody else.
func (s *Sessions) nextUnlink(ctx context.Context) (time.Duration, error) {
	most := min(max(s.opt.BlobGrace, time.Second), unlinkLook)
	in, waits, err := s.Content.NextReleased(ctx, s.DB, s.opt.BlobGrace)
	if err != nil {
		return 0, err
	}
	if !waits {
		return most, nil
	}
	return min(max(in, time.Second), most), nil
}

// unlinkSome deletes one batch and returns how many rows it has dealt with. Files that the store
// cannot delete stay claimed, so that they are not in the way of the others; it is an error when
// that is all of them.
func (s *Sessions) unlinkSome(ctx context.Context) (int, error) {
	batch, used, err := s.claimReleased(ctx)
	if err != nil || len(batch) == 0 {
		return used, err
	}
	names := make([]string, len(batch))
	for i, r := range batch {
		names[i] = r.File
	}
	storeCtx, cancel := context.WithTimeout(ctx, s.unlinkHold()*9/10) // it ends before somebody else gets it
	gone, err := blob.RemoveAll(storeCtx, s.Store, names)
	cancel()
	if err != nil {
		s.Unlinked.Failed.Add(int64(len(batch) - len(gone)))
		err = fmt.Errorf("delete %d of %d released files: %w", len(batch)-len(gone), len(batch), err)
	}
	if len(gone) == 0 {
		return len(batch), err
	}
	if err != nil {
		s.opt.Log.WarnContext(ctx, "released files stay for a while", "error", err)
	}
	// What is gone is gone, also when this process is told to stop.
	forgetCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.unlinkHold()/10)
	defer cancel()
	if err := s.DB.Write(forgetCtx, func(ctx context.Context, tx *sqldb.Tx) error { return s.Content.Forget(ctx, tx, gone) }); err != nil {
		return len(batch), err
	}
	s.Unlinked.Files.Add(int64(len(gone)))
	s.Unlinked.Bytes.Add(sizeOf(batch, gone))
	return len(batch), nil
}

// claimReleased takes a batch. used is how many rows turned out to be of files that stay.
func (s *Sessions) claimReleased(ctx context.Context) (batch []content.Released, used int, err error) {
	var names []string
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		batch, names, err = s.Content.ClaimReleased(ctx, tx, content.Claim{Grace: s.opt.BlobGrace, Hold: s.unlinkHold(), Limit: blob.MaxRemoved})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for _, file := range names {
		s.opt.Log.ErrorContext(ctx, "a file that a blob names was to be deleted; it stays", "file", file)
	}
	return batch, len(names), nil
}

// sizeOf adds up what the files that are gone had.
func sizeOf(batch []content.Released, gone []string) (sum int64) {
	sizes := make(map[string]int64, len(batch))
	for _, r := range batch {
		sizes[r.File] = int64(r.Size)
	}
	for _, file := range gone {
		sum += sizes[file]
	}
	return sum
}
