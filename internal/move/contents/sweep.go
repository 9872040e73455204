package contents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/move/migrate"
)

// sweep is the save point of a sweep, stored in the table meta, which is replicated like other
// rows.
type sweep struct {
	Of     string         `json:"of"`    // migration and term; a new term needs a new sweep
	Armed  bool           `json:"armed"` // the triggers were created before the sweep began, so it misses nothing
	After  string         `json:"after"` // id of the last row done: the save point
	Last   string         `json:"last"`  // greatest id at the start; newer rows are in the queue; empty: no rows
	Done   int64          `json:"done"`
	Total  int64          `json:"total"` // approximate number of rows at the start
	Copied int64          `json:"copied"`
	Bytes  drive.ByteSize `json:"bytes"`           // copied bytes
	Bad    int64          `json:"bad"`             // contents that do not match their rows
	Worst  string         `json:"worst,omitempty"` // an example of the bad contents
	Deep   int            `json:"deep"`            // percentage of contents whose digest is verified on the new side
	Begun  drive.Time     `json:"begun"`
	Ended  drive.Time     `json:"ended"` // zero: running

	stored string // the stored JSON when it was read; empty: not stored
}

// add counts the result of a row in s: done, copied with its bytes, bad. It does not store s.
func (s *sweep) add(r row, res result) {
	s.Done++
	if res.copied {
		s.Copied++
		s.Bytes += r.content.Size
	}
	if res.bad != "" {
		s.Bad++
		s.Worst = res.bad
	}
}

// metaSweep is the name of the save point in the table meta.
const metaSweep = "contents-sweep"

// termName returns the text by which sweep.Of names a term of a migration.
func termName(state migrate.State) string { return fmt.Sprintf("%s/%d", state.ID, state.Term) }

// openSweep returns the sweep of the current term. If there is none, or it began before the
// triggers existed, open creates the triggers and begins a new sweep.
func (c *Copier) openSweep(ctx context.Context, state migrate.State) (sweep, error) {
	s, err := c.loadSweep(ctx)
	if err != nil || s.Of == termName(state) && s.Armed {
		return s, err
	}
	if err := c.createTriggers(ctx); err != nil {
		return sweep{}, err
	}
	begun := sweep{Of: termName(state), Armed: true}
	if s.Of == begun.Of {
		begun.Deep = s.Deep
	}
	if begun, err = c.newSweep(ctx, begun); err != nil {
		return sweep{}, err
	}
	begun.stored = s.stored
	err = c.saveSweep(ctx, &begun)
	if errors.Is(err, errSweepReplaced) {
		return c.openSweep(ctx, state)
	}
	return begun, err
}

// endCapture drops the triggers and the queue after the old place was left. The result of the sweep
// is kept for display.
func (c *Copier) endCapture(ctx context.Context) error {
	s, err := c.loadSweep(ctx)
	if err != nil || !s.Armed {
		return err
	}
	if err := c.dropCapture(ctx); err != nil {
		return err
	}
	s.Armed = false
	return c.saveSweep(ctx, &s)
}

// newSweep sets the start of a sweep. The sweep ends at the last row that exists now; otherwise it
// might never end.
func (c *Copier) newSweep(ctx context.Context, s sweep) (sweep, error) {
	s.Begun = drive.TimeOf(c.opt.Now())
	s.Total = migrate.Count(ctx, c.opt.DB, "blobs")
	if err := c.opt.DB.QueryRow(ctx, "SELECT COALESCE(MAX(id), '') FROM blobs").Scan(&s.Last); err != nil {
		return sweep{}, fmt.Errorf("find the last blob: %w", err)
	}
	return s, nil
}

// loadSweep reads the stored sweep; the zero sweep if there is none. s.stored is its text, for the
// compare-and-set of the next save. It fails if the text is damaged.
func (c *Copier) loadSweep(ctx context.Context) (s sweep, err error) {
	text, err := meta.Find(ctx, c.opt.DB, metaSweep)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &s)
	}
	if err != nil {
		return sweep{}, fmt.Errorf("read how far contents were copied: %w", err)
	}
	s.stored = text
	return s, nil
}

// errSweepReplaced reports that another sweep was requested meanwhile.
var errSweepReplaced = errors.New("contents are looked through once more")

// saveSweep stores a sweep if the stored one is unchanged since it was read (compare-and-set), or
// returns errSweepReplaced.
func (c *Copier) saveSweep(ctx context.Context, s *sweep) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		var saved bool
		if s.stored == "" {
			saved, err = meta.Create(ctx, tx, metaSweep, string(text))
		} else {
			saved, err = meta.CompareAndSwap(ctx, tx, metaSweep, s.stored, string(text))
		}
		if err == nil && !saved {
			err = errSweepReplaced
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write how far contents were copied: %w", err)
	}
	s.stored = string(text)
	return nil
}

// Verify requests another sweep by Run, in the background. It also reads the contents of percent of
// the rows on the new side and verifies their digests. Without contents that move it does nothing.
func (c *Copier) Verify(ctx context.Context, percent int) error {
	state := c.opt.State()
	if state.ID == "" || state.Contents == "" {
		return nil
	}
	was, err := c.loadSweep(ctx)
	if err != nil {
		return err
	}
	s, err := c.newSweep(ctx, sweep{Of: termName(state), Armed: was.Armed && was.Of == termName(state), Deep: percent})
	if err != nil {
		return err
	}
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Save(ctx, tx, metaSweep, s) })
	if err != nil {
		return fmt.Errorf("begin to look through contents: %w", err)
	}
	return nil
}

// Progress returns the progress of the sweep of this term; zero if no contents move or the sweep
// has not begun. Rate is that of this process.
func (c *Copier) Progress(ctx context.Context) (migrate.ContentsProgress, error) {
	state := c.opt.State()
	if state.ID == "" || state.Contents == "" {
		return migrate.ContentsProgress{}, nil
	}
	s, err := c.loadSweep(ctx)
	if err != nil || s.Of != termName(state) {
		return migrate.ContentsProgress{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return migrate.ContentsProgress{Done: s.Done, Total: s.Total, Bytes: int64(s.Bytes), Rate: c.speed.perSecond()}, nil
}

// rateMeter measures the recent rate of copied bytes.
type rateMeter struct {
	clock func() time.Time
	since time.Time      // start of the current period
	bytes drive.ByteSize // counted in the current period
	last  float64        // bytes per second in the last complete period
}

// speedWindow is the period of one measurement.
const speedWindow = 5 * time.Second

// countCopied adds n bytes to the measurement of the copying rate, which Progress returns. It does
// not change the total of copied bytes, which is in the sweep.
func (c *Copier) countCopied(n drive.ByteSize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.speed.perSecond()
	c.speed.bytes += n
}

// perSecond returns the rate of the last complete period in bytes per second. The caller holds the
// mutex of the Copier.
func (s *rateMeter) perSecond() float64 {
	now := s.clock()
	if s.since.IsZero() {
		s.since = now
	}
	if passed := now.Sub(s.since); passed >= speedWindow {
		s.last, s.bytes, s.since = float64(s.bytes)/passed.Seconds(), 0, now
	}
	return s.last
}
