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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/move/migrate"
)

// Options configure NewCopier. DB, Pair and State are required.
type Options struct {
	DB   *sqldb.DB // the handle that goes to the primary
	Pair *Pair
	// State says where the migration stands.
	State func() migrate.State
	Drop  Drop
	// Workers is how many contents are on their way at once. Default 4, and 16 where a side is far.
	Workers int
	Now     func() time.Time
	Log     *slog.Logger
}

// Copier is the loop and what it tells. It is safe for concurrent use.
type Copier struct {
	opt   Options
	limit *rate.Limiter // bytes

	page      int            // rows between two save points of the sweep; of Run alone
	drainFrom time.Time      // when the queue is looked at again after it could not be emptied; of Run alone
	tries     map[string]int // how often in a row a content of the page could not be brought, by id; of Run alone

	mu    sync.Mutex
	speed speed
	paced int64 // what the limit was set to, in bytes a second; 0: none
}

var _ migrate.Contents = (*Copier)(nil)

// NewCopier does no I/O.
func NewCopier(o Options) *Copier {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return &Copier{opt: o, speed: speed{now: o.Now}, limit: rate.NewLimiter(rate.Inf, int(drive.MiB)), page: firstPage, tries: map[string]int{}}
}

const (
	// firstPage and pageSize are the fewest and the most rows of blobs between two save points of a
	// sweep. A process begins with few, and takes twice as many as long as they take less than half
	// of saveTime: what one that is killed again and again has done counts.
	firstPage = 8
	pageSize  = 100
	saveTime  = time.Second

	restTime = 300 * time.Millisecond
	failTime = 3 * time.Second // a store or database that does not answer is asked again then
)

// Run copies until ctx is done.
func (c *Copier) Run(ctx context.Context) error {
	for {
		busy, err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it ends because it should
		}
		if errors.Is(err, errElsewhere) { // give the lease back
			return err
		}
		if err != nil {
			c.opt.Log.WarnContext(ctx, "contents are not copied; it goes on in a moment", "error", err)
		}
		pause := restTime
		switch {
		case busy:
			continue
		case err != nil:
			pause = failTime
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// runOnce brings what waits, and a page of the sweep, whatever became of what waits. busy: there is
// more.
func (c *Copier) runOnce(ctx context.Context) (busy bool, err error) {
	state := c.opt.State()
	switch {
	case state.Dropping:
		return false, c.dropOnce(ctx, state)
	case state.Phase == migrate.NewOnly:
		return false, c.leave(ctx)
	}
	if _, both := c.opt.Pair.Attached(); !both || state.ID == "" || state.Contents == "" {
		return false, nil
	}
	s, err := c.open(ctx, state)
	if err != nil {
		return false, err
	}
	waiting := c.drainAgain(ctx)
	if s.Ended != 0 || state.Paused {
		return false, waiting
	}
	busy, err = c.sweepOn(ctx, s)
	if errors.Is(err, errBegunAgain) { // what was done is done
		busy, err = true, nil
	}
	return busy, errors.Join(waiting, err)
}

// drainAgain is drain, unless something that waits could not be brought a moment ago: the sweep
// goes on meanwhile, and does not try that with each of its pages.
func (c *Copier) drainAgain(ctx context.Context) error {
	now := c.opt.Now()
	if now.Before(c.drainFrom) {
		return nil
	}
	err := c.drain(ctx)
	if err != nil {
		c.drainFrom = now.Add(failTime)
	}
	return err
}

// sweepOn brings the next page of the sweep. busy: there is another.
func (c *Copier) sweepOn(ctx context.Context, s sweep) (busy bool, err error) {
	began, size := time.Now(), c.page
	page, err := c.rows(ctx, s.After, s.Last, size)
	if err != nil {
		return false, err
	}
	all := c.bring(ctx, page, s.Deep)
	if err := c.judge(ctx, all); err != nil {
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
	return s.Ended == 0, c.save(ctx, &s)
}

// nextPage returns how many rows to bring before the next save point, after as many as size have
// taken so long.
func nextPage(size int, took time.Duration) int {
	switch {
	case took < saveTime/2:
		return min(2*size, pageSize)
	case took > saveTime:
		return max(size/2, firstPage)
	}
	return size
}

// row is a row of blobs, as far as it says what a copy must be.
type row struct {
	id      string
	content Content
	damaged bool
	bad     string // what is wrong with the row itself, so that nothing can be compared with it; empty: nothing
}

const rowColumns = "id, file, digest, size, part_size, damaged_at"

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

// rows returns up to limit rows behind an id, up to another one; empty: up to the end.
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

// find reads the row of a file.
func (c *Copier) find(ctx context.Context, file string) (r row, found bool, err error) {
	err = scanRow(&r, c.opt.DB.QueryRow(ctx, "SELECT "+rowColumns+" FROM blobs WHERE file = ?", file).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return row{}, false, nil
	}
	return r, err == nil, err
}

// pace keeps to what the migration says about bytes. Who waits looks again after patience: the pace
// may have changed.
func (c *Copier) pace(ctx context.Context, bytes int) error {
	for {
		if !c.follow(c.opt.State().Pace.Bytes) {
			return nil
		}
		turn := c.limit.ReserveN(time.Now(), min(bytes, c.limit.Burst()))
		left := turn.Delay()
		if left > patience {
			turn.Cancel()
		}
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left, patience))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return drive.Wrap(ctx.Err(), drive.Unavailable)
		}
		if left <= patience {
			return nil
		}
	}
}

const patience = time.Second

// follow sets the limit to so many bytes a second, and reports whether there is one.
func (c *Copier) follow(pace int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paced != pace {
		c.paced = pace
		c.limit.SetLimit(rate.Limit(pace))
	}
	return pace > 0
}
