package contents

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/move/migrate"
)

// Options configures NewCopier. DB, Pair and State are required.
type Options struct {
	DB   *sqldb.DB // handle routed to the primary
	Pair *Pair
	// State returns the state of the migration.
	State func() migrate.State
	// Drop is required only for dropping the old place.
	Drop DropOptions
	// Workers is the number of contents synced concurrently. Default 4, or 16 if a side is remote.
	Workers int
	Now     func() time.Time
	Log     *slog.Logger
}

// Copier copies contents to the side of a pair that lacks them, and deletes those of the old place
// after the migration. It is safe for concurrent use; one process at a time calls Run.
type Copier struct {
	opt   Options
	limit *rate.Limiter // in bytes per second

	page       int            // rows between two save points of the sweep; used only by Run
	drainAfter time.Time      // time before which a failed queue is not tried again; used only by Run
	tries      map[string]int // consecutive failed tries by blob id; used only by Run

	mu      sync.Mutex
	speed   rateMeter
	limited int64 // current limit in bytes per second; 0: none
}

var _ migrate.Contents = (*Copier)(nil)

// NewCopier returns a Copier with defaults for Now and Log. It does no I/O and starts no goroutine.
func NewCopier(o Options) *Copier {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return &Copier{opt: o, speed: rateMeter{clock: o.Now}, limit: rate.NewLimiter(rate.Inf, int(drive.MiB)), page: firstPage, tries: map[string]int{}}
}

const (
	// firstPage and pageSize are the minimum and maximum number of rows between two save points of
	// a sweep. A process starts with firstPage and doubles it while a page takes less than half of
	// pageTime, so that even a process that is killed repeatedly makes progress.
	firstPage = 8
	// pageSize is the largest number of contents in one page of the sweep or the queue.
	pageSize = 100
	// pageTime is how long a page of the sweep should take.
	pageTime = time.Second

	// idlePause is the pause of the copier when nothing is left to copy.
	idlePause = 300 * time.Millisecond
	failPause = 3 * time.Second // pause after an error of a store or database
)

// Run copies contents until ctx ends. It returns nil then, and errCannotOpenOld if another process
// must drop the old place.
func (c *Copier) Run(ctx context.Context) error {
	var outage telemetry.Outage
	for {
		busy, err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a normal end
		}
		if errors.Is(err, errCannotOpenOld) { // the caller releases the lease
			return err
		}
		outage.Record(ctx, c.opt.Log, "copying contents failed; it is retried in a few seconds", err)
		pause := idlePause
		switch {
		case busy:
			continue
		case err != nil:
			pause = failPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// runOnce syncs the queue and one page of the sweep, even if the queue failed. busy reports that
// the sweep has more pages.
func (c *Copier) runOnce(ctx context.Context) (busy bool, err error) {
	state := c.opt.State()
	switch {
	case state.Dropping:
		return false, c.dropOnce(ctx, state)
	case state.Phase == migrate.NewOnly:
		return false, c.endCapture(ctx)
	}
	if _, both := c.opt.Pair.Attached(); !both || state.ID == "" || state.Contents == "" {
		return false, nil
	}
	s, err := c.openSweep(ctx, state)
	if err != nil {
		return false, err
	}
	waiting := c.drainUnlessFailing(ctx)
	if s.Ended != 0 || state.Paused {
		return false, waiting
	}
	busy, err = c.sweepPage(ctx, s)
	if errors.Is(err, errSweepReplaced) { // another sweep was requested; the work is not lost
		busy, err = true, nil
	}
	return busy, errors.Join(waiting, err)
}

// drainUnlessFailing drains the queue. Within failPause after a failure it does nothing and returns
// nil.
func (c *Copier) drainUnlessFailing(ctx context.Context) error {
	now := c.opt.Now()
	if now.Before(c.drainAfter) {
		return nil
	}
	err := c.drain(ctx)
	if err != nil {
		c.drainAfter = now.Add(failPause)
	}
	return err
}

// sweepPage syncs the next page of the sweep s, a pass over all rows of blobs, and stores the save
// point. busy reports that there are more pages. If a side does not answer it fails, and the page
// is repeated. It returns errSweepReplaced if another sweep was requested.
func (c *Copier) sweepPage(ctx context.Context, s sweep) (busy bool, err error) {
	began, size := time.Now(), c.page
	page, err := c.rows(ctx, s.After, s.Last, size)
	if err != nil {
		return false, err
	}
	all := c.syncPage(ctx, page, s.Deep)
	if err := c.classifyFailures(ctx, all); err != nil {
		return false, err
	}
	for _, b := range all {
		s.add(b.row, b.res)
	}
	if len(page) > 0 {
		s.After = page[len(page)-1].id
	}
	if len(page) < size {
		s.Ended = drive.TimeOf(c.opt.Now())
	}
	s.Total = max(s.Total, s.Done)
	c.page = nextPage(size, time.Since(began))
	return s.Ended == 0, c.saveSweep(ctx, &s)
}

// nextPage returns the size of the next page, given the size and the duration of the last one.
func nextPage(size int, took time.Duration) int {
	switch {
	case took < pageTime/2:
		return min(2*size, pageSize)
	case took > pageTime:
		return max(size/2, firstPage)
	}
	return size
}

// row is a row of blobs with what a copy must match.
type row struct {
	id      string
	content Content
	damaged bool   // the row is marked as damaged
	bad     string // defect of the row that prevents any comparison; empty: none
}

// rowColumns are the columns of blobs that scanRow reads.
const rowColumns = "id, file, digest, size, part_size, damaged_at"

// scanRow reads a row of rowColumns into r by calling scan, whose error it returns. A digest that
// is not valid is no error: it sets r.bad.
func scanRow(r *row, scan func(dest ...any) error) error {
	var sum string
	var damaged drive.Time
	if err := scan(&r.id, &r.content.Name, &sum, &r.content.Size, &r.content.PartSize, &damaged); err != nil {
		return err
	}
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != len(r.content.Sum) {
		r.bad = fmt.Sprintf("blob %s has the digest %q", r.id, sum)
	}
	copy(r.content.Sum[:], raw)
	r.damaged = damaged != 0
	return nil
}

// rows returns up to limit rows with an id above after and not above last; an empty last means no
// upper bound.
func (c *Copier) rows(ctx context.Context, after, last string, limit int) ([]row, error) {
	query, args := "SELECT "+rowColumns+" FROM blobs WHERE id > ? ORDER BY id LIMIT ?", []any{after, limit}
	if last != "" {
		query, args = "SELECT "+rowColumns+" FROM blobs WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", []any{after, last, limit}
	}
	rows, err := c.opt.DB.Query(ctx, query, args...)
	page, err := sqldb.Scan(rows, err, scanRow)
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	return page, nil
}

// find returns the row of blobs whose content is named file. found is false, without an error, if
// there is none.
func (c *Copier) find(ctx context.Context, file string) (r row, found bool, err error) {
	err = scanRow(&r, c.opt.DB.QueryRow(ctx, "SELECT "+rowColumns+" FROM blobs WHERE file = ?", file).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return row{}, false, nil
	}
	return r, err == nil, err
}

// waitPace waits until bytes more may be read under the migration's pace. It rereads the pace every
// paceRecheck. If ctx ends, it returns Unavailable.
func (c *Copier) waitPace(ctx context.Context, bytes int) error {
	for {
		if !c.setLimit(c.opt.State().Pace.Bytes) {
			return nil
		}
		turn := c.limit.ReserveN(time.Now(), min(bytes, c.limit.Burst()))
		left := turn.Delay()
		if left > paceRecheck {
			turn.Cancel()
		}
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left, paceRecheck))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return drive.Wrap(ctx.Err(), drive.Unavailable)
		}
		if left <= paceRecheck {
			return nil
		}
	}
}

// paceRecheck is the longest wait before the pace is read again.
const paceRecheck = time.Second

// setLimit sets the limit in bytes per second and reports whether there is one; 0 is none.
func (c *Copier) setLimit(pace int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limited != pace {
		c.limited = pace
		c.limit.SetLimit(rate.Limit(pace))
	}
	return pace > 0
}
