package contents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/move/migrate"
)

// sweep is how far the rows have been gone through: the save point, in the table meta, which moves
// with the rows.
type sweep struct {
	Of     string         `json:"of"`    // the migration and its term: another switch, another sweep
	Armed  bool           `json:"armed"` // the triggers were made before it began, so that it misses nothing
	After  string         `json:"after"`
	Last   string         `json:"last"` // the greatest id when it began: rows that came since are in the queue; empty: none is known
	Done   int64          `json:"done"`
	Total  int64          `json:"total"` // rows when it began, about
	Copied int64          `json:"copied"`
	Bytes  drive.ByteSize `json:"bytes"` // of what was copied
	Bad    int64          `json:"bad"`   // contents whose bytes are not what their row tells of
	Worst  string         `json:"worst,omitempty"`
	Deep   int            `json:"deep"` // percent of contents whose digest is compared on the side that is new
	Begun  drive.Time     `json:"begun"`
	Ended  drive.Time     `json:"ended"` // zero: it runs

	stored string // it, as it was read; empty: there was none
}

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

// metaSweep is its name in the table meta.
const metaSweep = "contents-sweep"

func nameOf(state migrate.State) string { return fmt.Sprintf("%s/%d", state.ID, state.Term) }

// open returns the sweep of where the migration stands, or begins it, after the triggers were made:
// also where Verify has asked for it before anybody had made them.
func (c *Copier) open(ctx context.Context, state migrate.State) (sweep, error) {
	s, err := c.load(ctx)
	if err != nil || s.Of == nameOf(state) && s.Armed {
		return s, err
	}
	if err := c.arm(ctx); err != nil {
		return sweep{}, err
	}
	begun := sweep{Of: nameOf(state), Armed: true}
	if s.Of == begun.Of {
		begun.Deep = s.Deep
	}
	if begun, err = c.fresh(ctx, begun); err != nil {
		return sweep{}, err
	}
	begun.stored = s.stored
	err = c.save(ctx, &begun)
	if errors.Is(err, errBegunAgain) {
		return c.open(ctx, state)
	}
	return begun, err
}

// leave ends the capture once the old place was left: nobody brings what is captured any more. What
// is known of the sweep stays, for people to see.
func (c *Copier) leave(ctx context.Context) error {
	s, err := c.load(ctx)
	if err != nil || !s.Armed {
		return err
	}
	if err := c.disarm(ctx); err != nil {
		return err
	}
	s.Armed = false
	return c.save(ctx, &s)
}

// fresh is a sweep that begins now. It ends with the rows that there are: to go on for as long as
// others come might take for ever.
func (c *Copier) fresh(ctx context.Context, s sweep) (sweep, error) {
	s.Begun = drive.TimeOf(c.opt.Now())
	s.Total = migrate.Count(ctx, c.opt.DB, "blobs")
	if err := c.opt.DB.QueryRow(ctx, "SELECT COALESCE(MAX(id), '') FROM blobs").Scan(&s.Last); err != nil {
		return sweep{}, fmt.Errorf("find the last blob: %w", err)
	}
	return s, nil
}

func (c *Copier) load(ctx context.Context) (s sweep, err error) {
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

// errBegunAgain says that somebody has asked for another sweep meanwhile, which is to be made now.
var errBegunAgain = errors.New("contents are looked through once more")

// save writes a sweep in the place of what it was read as.
func (c *Copier) save(ctx context.Context, s *sweep) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		var saved bool
		if s.stored == "" {
			saved, err = meta.Make(ctx, tx, metaSweep, string(text))
		} else {
			saved, err = meta.Swap(ctx, tx, metaSweep, s.stored, string(text))
		}
		if err == nil && !saved {
			err = errBegunAgain
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write how far contents were copied: %w", err)
	}
	s.stored = string(text)
	return nil
}

// Verify goes through all contents once more, and compares the digests of some percent of them by
// reading them on the side that is new. Run does it.
func (c *Copier) Verify(ctx context.Context, percent int) error {
	state := c.opt.State()
	if state.ID == "" || state.Contents == "" {
		return nil
	}
	was, err := c.load(ctx)
	if err != nil {
		return err
	}
	s, err := c.fresh(ctx, sweep{Of: nameOf(state), Armed: was.Armed && was.Of == nameOf(state), Deep: percent})
	if err != nil {
		return err
	}
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Save(ctx, tx, metaSweep, s) })
	if err != nil {
		return fmt.Errorf("begin to look through contents: %w", err)
	}
	return nil
}

// Progress implements migrate.Contents.
func (c *Copier) Progress(ctx context.Context) (migrate.ContentsProgress, error) {
	state := c.opt.State()
	if state.ID == "" || state.Contents == "" {
		return migrate.ContentsProgress{}, nil
	}
	s, err := c.load(ctx)
	if err != nil || s.Of != nameOf(state) {
		return migrate.ContentsProgress{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return migrate.ContentsProgress{Done: s.Done, Total: s.Total, Bytes: int64(s.Bytes), Rate: c.speed.of()}, nil
}

// speed is how fast bytes have come of late.
type speed struct {
	now   func() time.Time
	since time.Time
	bytes drive.ByteSize
	last  float64
}

// speedWindow is how long bytes are counted for one figure.
const speedWindow = 5 * time.Second

func (c *Copier) note(n drive.ByteSize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.speed.of()
	c.speed.bytes += n
}

// of returns bytes a second.
func (s *speed) of() float64 {
	now := s.now()
	if s.since.IsZero() {
		s.since = now
	}
	if passed := now.Sub(s.since); passed >= speedWindow {
		s.last, s.bytes, s.since = float64(s.bytes)/passed.Seconds(), 0, now
	}
	return s.last
}
