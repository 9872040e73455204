// Package unlink deletes the files of contents without references after a grace period. Package
// content selects them and leases each to one instance at a time.
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

	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	// workers is the number of batches an instance processes concurrently: while one waits
	// for the store, another uses the database.
	workers = 2
	// minHold and maxHold bound the lease of a batch, which otherwise equals the grace period.
	// A batch takes a second, or minutes with a throttled store. If an instance dies, its batch
	// waits for the end of the lease.
	minHold = 30 * time.Second
	// maxHold is the longest lease of a batch; see minHold.
	maxHold = 10 * time.Minute
	// longestPause is the longest pause between two checks, because other instances release
	// files too. A check reads one index row.
	longestPause = time.Minute
)

// Counters counts the results for released files since the start.
type Counters struct {
	Files    atomic.Int64
	Bytes    atomic.Int64
	Failed   atomic.Int64 // failed deletions, to be retried
	Deferred atomic.Int64 // kept because rewriting their packs is not worthwhile yet
}

// Dependencies are the services that an Unlinker uses.
type Dependencies struct {
	DB      *sqldb.DB
	Store   blob.Store
	Content content.Content
}

// Options configure an Unlinker. A zero field selects its default.
type Options struct {
	Grace    time.Duration // grace period of a released file; default 15 min
	Restored bool          // a restored backup is not checked yet: nothing is deleted
	// Damaged reports whether the database is known to be damaged. Then its rows may miss
	// references to a file, and nothing is deleted. nil: never damaged.
	Damaged func() bool
	Log     *slog.Logger
}

// Unlinker deletes released files. It is safe for concurrent use.
type Unlinker struct {
	Counters Counters
	parts    Dependencies
	opt      Options
}

// New returns an Unlinker; Run starts its work.
func New(parts Dependencies, opt Options) *Unlinker {
	opt.Grace = cmp.Or(opt.Grace, 15*time.Minute)
	opt.Log = cmp.Or(opt.Log, slog.Default())
	return &Unlinker{parts: parts, opt: opt}
}

// hold returns the lease time of a batch.
func (u *Unlinker) hold() time.Duration {
	return min(max(u.opt.Grace, minHold), maxHold)
}

// Run deletes released files after their grace period until ctx ends. Every instance runs it, and
// package content divides the work. Failures are logged and retried without limit. It returns nil.
func (u *Unlinker) Run(ctx context.Context) error {
	var all errgroup.Group
	for range workers {
		all.Go(func() error {
			u.loop(ctx)
			return nil
		})
	}
	return all.Wait()
}

// loop calls DeleteDue until ctx ends: when the next file is due, or with exponential backoff after
// failures, which it logs.
func (u *Unlinker) loop(ctx context.Context) {
	failures := 0
	var outage telemetry.Outage
	for ctx.Err() == nil {
		next, err := u.DeleteDue(ctx)
		if failures++; err == nil {
			failures = 0
		} else {
			next = min(time.Second<<min(failures, 6), longestPause)
		}
		outage.Record(ctx, u.opt.Log, "released files were not deleted and will be tried again", err)
		wake := time.NewTimer(next + rand.N(next/4+1)) // jitter: instances that check at the same moment find the same rows
		select {
		case <-wake.C:
		case <-ctx.Done():
			wake.Stop()
		}
	}
}

// DeleteDue deletes all files that are due and returns the time until the next check. After an
// error some of them may be deleted.
func (u *Unlinker) DeleteDue(ctx context.Context) (next time.Duration, err error) {
	if u.opt.Restored || u.opt.Damaged != nil && u.opt.Damaged() {
		return longestPause, nil
	}
	for {
		n, err := u.deleteBatch(ctx)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return u.untilNext(ctx)
		}
	}
}

// untilNext returns the time until the next file is due, at least a second to avoid busy polling,
// and at most longestPause, because other instances release files meanwhile. Files that are due and
// leased belong to another instance.
func (u *Unlinker) untilNext(ctx context.Context) (time.Duration, error) {
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

// deleteBatch claims and deletes one batch and returns the number of rows processed; 0: nothing is
// due. Files that the store cannot delete stay claimed until the lease ends, so that they do not
// block others. Files whose pack is not worth rewriting yet are deferred. It returns an error if no
// file could be deleted because of one.
func (u *Unlinker) deleteBatch(ctx context.Context) (int, error) {
	batch, used, err := u.claim(ctx)
	if err != nil || len(batch) == 0 {
		return used, err
	}
	names := make([]string, len(batch))
	for i, r := range batch {
		names[i] = r.File
	}
	storeCtx, cancel := context.WithTimeout(ctx, u.hold()*9/10) // ends before the lease does
	gone, err := u.parts.Store.Reclaim(storeCtx, names)
	cancel()
	left := leftOf(names, gone)
	if err != nil {
		u.Counters.Failed.Add(int64(len(batch) - len(gone)))
		err = fmt.Errorf("delete %d of %d released files: %w", len(batch)-len(gone), len(batch), err)
	}
	if len(gone) == 0 && err != nil {
		return len(batch), err
	}
	if err != nil {
		left = nil // retried like after any failure
		u.opt.Log.WarnContext(ctx, "some released files could not be deleted and will be tried again", "error", err)
	}
	// The files are deleted, so record it even if this process is stopping.
	forgetCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.hold()/10)
	defer cancel()
	err = u.parts.DB.Write(forgetCtx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := u.parts.Content.DeleteReleased(ctx, tx, gone); err != nil || len(left) == 0 {
			return err
		}
		return u.parts.Content.Defer(ctx, tx, left, u.opt.Grace)
	})
	if err != nil {
		return len(batch), err
	}
	u.Counters.Deferred.Add(int64(len(left)))
	u.Counters.Files.Add(int64(len(gone)))
	u.Counters.Bytes.Add(sizeOf(batch, gone))
	return len(batch), nil
}

// claim leases a batch of due files. used is the number of released rows that it deleted because a
// content still refers to their files.
func (u *Unlinker) claim(ctx context.Context) (batch []content.Released, used int, err error) {
	var names []string
	err = u.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		batch, names, err = u.parts.Content.ClaimReleased(ctx, tx, content.Claim{Grace: u.opt.Grace, Hold: u.hold(), Limit: blob.MaxRemoved, SamePacks: u.parts.Store.Caps().DefersReclaim})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for _, file := range names {
		u.opt.Log.ErrorContext(ctx, "released file is still referenced by a content and is kept; run fsck", "file", file)
	}
	return batch, len(names), nil
}

// leftOf returns the names that are not in gone.
func leftOf(names, gone []string) (left []string) {
	went := make(map[string]bool, len(gone))
	for _, name := range gone {
		went[name] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return went[name] })
}

// sizeOf returns the total size of the files in gone.
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
