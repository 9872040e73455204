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

	"golang.org/x/sync/errgroup"
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
	// Workers is how many contents are on their way at once. Default 4.
	Workers int
	Now     func() time.Time
	Log     *slog.Logger
}

// Copier is the loop and what it tells. It is safe for concurrent use.
type Copier struct {
	opt   Options
	limit *rate.Limiter // bytes

	mu    sync.Mutex
	speed speed
	paced int64 // what the limit was set to, in bytes a second; 0: none
}

var _ migrate.Contents = (*Copier)(nil)

// NewCopier does no I/O.
func NewCopier(o Options) *Copier {
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return &Copier{opt: o, speed: speed{now: o.Now}, limit: rate.NewLimiter(rate.Inf, int(drive.MiB))}
}

const (
	pageSize = 100 // rows of blobs that are looked at between two save points
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
		pause := restTime
		switch {
		case err != nil:
			c.opt.Log.WarnContext(ctx, "contents are not copied; it goes on in a moment", "error", err)
			pause = failTime
		case busy:
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// runOnce brings what waits, and a page of the sweep. busy: there is more.
func (c *Copier) runOnce(ctx context.Context) (busy bool, err error) {
	state := c.opt.State()
	if state.Dropping {
		return false, c.dropOnce(ctx, state)
	}
	if _, both := c.opt.Pair.Attached(); !both || state.ID == "" || state.Contents == "" {
		return false, nil
	}
	s, err := c.open(ctx, state)
	if err != nil {
		return false, err
	}
	if err := c.drain(ctx); err != nil || s.Ended != 0 || state.Paused {
		return false, err
	}
	page, err := c.page(ctx, s.After)
	if err != nil {
		return false, err
	}
	if err := c.bring(ctx, page, &s); err != nil {
		return false, err
	}
	if len(page) > 0 {
		s.After = page[len(page)-1].id
	}
	if len(page) < pageSize {
		s.Ended = drive.TimeOf(c.opt.Now())
	}
	s.Total = max(s.Total, s.Done)
	return s.Ended == 0, c.save(ctx, s)
}

// row is a row of blobs, as far as it says what a copy must be.
type row struct {
	id      string
	content Content
	damaged bool
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
		return fmt.Errorf("blob %s has the digest %q", r.id, sum)
	}
	copy(r.content.Sum[:], raw)
	r.damaged = damaged != 0
	return nil
}

func (c *Copier) page(ctx context.Context, after string) ([]row, error) {
	rows, err := c.opt.DB.Query(ctx, "SELECT "+rowColumns+" FROM blobs WHERE id > ? ORDER BY id LIMIT ?", after, pageSize)
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

// bring syncs a page of rows, some at once. Bytes that are not what their row tells of are counted
// and stop nothing; a store that does not answer ends it, and the page is done again.
func (c *Copier) bring(ctx context.Context, page []row, s *sweep) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.opt.Workers)
	for _, r := range page {
		g.Go(func() error {
			res, err := c.one(ctx, r, s.Deep)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				s.add(r, res)
			}
			return err
		})
	}
	return g.Wait()
}

// result is what became of one content.
type result struct {
	copied bool
	bad    string // what is wrong with it
}

// one brings one content, and compares its digest on the side that is new where it is among the
// deep percent.
func (c *Copier) one(ctx context.Context, r row, deep int) (result, error) {
	outcome, err := c.opt.Pair.Sync(ctx, r.content, c.pace)
	if err == nil && outcome == Nowhere {
		return c.nowhere(ctx, r)
	}
	if err == nil && outcome == There && sampled(r.content, deep) {
		err = c.opt.Pair.Check(ctx, Second, r.content, true, c.pace)
	}
	if wrong, ok := errors.AsType[*MismatchError](err); ok {
		if r.damaged {
			return result{}, nil // it is known, and there is nothing to be brought
		}
		c.opt.Log.ErrorContext(ctx, "content that is not what its row tells of", "file", r.content.Name, "error", err)
		return result{bad: wrong.Error()}, nil
	}
	if err != nil {
		return result{}, err
	}
	if outcome == Copied {
		c.note(r.content.Size)
	}
	return result{copied: outcome == Copied}, nil
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
