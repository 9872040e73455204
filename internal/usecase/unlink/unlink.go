// Package unlink deletes the files of contents that nobody has any more, when their grace is over.
// Package content says which, and hands each to one instance at a time.
package unlink

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

const (
	// unlinkers is how many batches an instance works on at the same time: while one waits for the
	// store another is at the database.
	unlinkers = 2
	// minHold and maxHold bound for how long nobody else gets a batch, which is as long
	// as released files are kept anyway. A batch takes a second, or minutes at a store that is
	// throttled; who dies in the middle of it leaves its files for so long.
	minHold = 30 * time.Second
	maxHold = 10 * time.Minute
	// longestPause is the longest pause between two looks for what is due: other instances release
	// files, too. A look is one row of an index.
	longestPause = time.Minute
)

// Unlinked counts what became of released files since the start.
type Unlinked struct {
	Files    atomic.Int64
	Bytes    atomic.Int64
	Failed   atomic.Int64 // deletions that will be tried again
	Deferred atomic.Int64 // stayed, because their packs are not worth rewriting yet
}

// Parts that an Unlinker is put together from.
type Parts struct {
	DB      *sqldb.DB
	Store   blob.Store
	Content content.Content
}

// Options are what an operator may set. The zero value of each field is its default.
type Options struct {
	Grace    time.Duration // how long a released file stays; default 15 min
	Restored bool          // a backup was restored and not checked yet: nothing is deleted
	// Damaged reports whether the database is known to be damaged: then its rows may not show all
	// who use a file, and nothing is deleted. nil: it is not.
	Damaged func() bool
	Log     *slog.Logger
}

// Unlinker deletes released files. It is safe for concurrent use.
type Unlinker struct {
	Unlinked Unlinked
	parts    Parts
	opt      Options
}

// New puts an Unlinker together. Nothing runs until Run is called.
func New(parts Parts, opt Options) *Unlinker {
	opt.Grace = cmp.Or(opt.Grace, 15*time.Minute)
	opt.Log = cmp.Or(opt.Log, slog.Default())
	return &Unlinker{parts: parts, opt: opt}
}

// hold is for how long nobody else gets a batch.
func (u *Unlinker) hold() time.Duration {
	return min(max(u.opt.Grace, minHold), maxHold)
}

// Run deletes released files when their grace is over, until ctx is done. Each instance that
// works does so, and they share what there is to do: see package content. What fails is logged and
// tried again, for as long as it takes.
func (u *Unlinker) Run(ctx context.Context) error {
	var all errgroup.Group
	for range unlinkers {
		all.Go(func() error {
			u.keep(ctx)
			return nil
		})
	}
	return all.Wait()
}

func (u *Unlinker) keep(ctx context.Context) {
	failures := 0
	var outage telemetry.Outage
	for ctx.Err() == nil {
		next, err := u.Unlink(ctx)
		if failures++; err == nil {
			failures = 0
		} else {
			next = min(time.Second<<min(failures, 6), longestPause)
		}
		outage.Note(ctx, u.opt.Log, "released files were not deleted and will be tried again", err)
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
func (u *Unlinker) Unlink(ctx context.Context) (next time.Duration, err error) {
	if u.opt.Restored || u.opt.Damaged != nil && u.opt.Damaged() {
		return longestPause, nil
	}
	for {
		n, err := u.some(ctx)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return u.next(ctx)
		}
	}
}

// next is when the next file is due, but not so soon that looking is all there is to do, nor
// so late that what others release in between waits for long. What is due and was not taken is in
// the hands of somebody else.
func (u *Unlinker) next(ctx context.Context) (time.Duration, error) {
	most := min(max(u.opt.Grace, time.Second), longestPause)
	in, waits, err := u.parts.Content.NextReleased(ctx, u.parts.DB, u.opt.Grace)
	if err != nil {
		return 0, err
	}
	if !waits {
		return most, nil
	}
	return min(max(in, time.Second), most), nil
}

// some deletes one batch and returns how many rows it has dealt with. Files that the store
// cannot delete stay claimed, so that they are not in the way of the others; it is an error when
// that is all of them.
func (u *Unlinker) some(ctx context.Context) (int, error) {
	batch, used, err := u.claim(ctx)
	if err != nil || len(batch) == 0 {
		return used, err
	}
	names := make([]string, len(batch))
	for i, r := range batch {
		names[i] = r.File
	}
	storeCtx, cancel := context.WithTimeout(ctx, u.hold()*9/10) // it ends before somebody else gets it
	gone, err := u.parts.Store.Reclaim(storeCtx, names)
	cancel()
	left := leftOf(names, gone)
	if err != nil {
		u.Unlinked.Failed.Add(int64(len(batch) - len(gone)))
		err = fmt.Errorf("delete %d of %d released files: %w", len(batch)-len(gone), len(batch), err)
	}
	if len(gone) == 0 && err != nil {
		return len(batch), err
	}
	if err != nil {
		left = nil // they are tried again as after any failure
		u.opt.Log.WarnContext(ctx, "released files stay for a while", "error", err)
	}
	// What is gone is gone, also when this process is told to stop.
	forgetCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.hold()/10)
	defer cancel()
	err = u.parts.DB.Write(forgetCtx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := u.parts.Content.Forget(ctx, tx, gone); err != nil || len(left) == 0 {
			return err
		}
		return u.parts.Content.Defer(ctx, tx, left, u.opt.Grace)
	})
	if err != nil {
		return len(batch), err
	}
	u.Unlinked.Deferred.Add(int64(len(left)))
	u.Unlinked.Files.Add(int64(len(gone)))
	u.Unlinked.Bytes.Add(sizeOf(batch, gone))
	return len(batch), nil
}

// claim takes a batch. used is how many rows turned out to be of files that stay.
func (u *Unlinker) claim(ctx context.Context) (batch []content.Released, used int, err error) {
	var names []string
	err = u.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		batch, names, err = u.parts.Content.ClaimReleased(ctx, tx, content.Claim{Grace: u.opt.Grace, Hold: u.hold(), Limit: blob.MaxRemoved, Together: u.parts.Store.Caps().Frugal})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for _, file := range names {
		u.opt.Log.ErrorContext(ctx, "a file that a blob names was to be deleted; it stays", "file", file)
	}
	return batch, len(names), nil
}

// leftOf returns the names that are not among those that are gone.
func leftOf(names, gone []string) (left []string) {
	went := make(map[string]bool, len(gone))
	for _, name := range gone {
		went[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return went[name] })
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
