package migrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"smartdrive/internal/engine/sqldb"
)

// comparator asks both sides again what some of the readers have asked, beside them: a request
// never waits for it.
type comparator struct {
	*matcher
	counts *counters
	queue  chan question
	filled epochOf // when all rows were seen to be filled in; belongs to run
}

// epochOf is an epoch of one migration.
type epochOf struct {
	migration string
	epoch     int64
}

func (v *view) named() epochOf { return epochOf{v.Migration, v.Epoch} }

type question struct {
	query string
	args  []any
}

const (
	maxAnswer    = 1000 // rows that are compared
	compareTries = 4
)

func newComparator(m *matcher, counts *counters) *comparator {
	return &comparator{matcher: m, counts: counts, queue: make(chan question, 64)}
}

// offer takes a sample; when too many wait it is left out.
func (c *comparator) offer(query string, args []any) {
	if rand.Float64() >= c.opt.Sample || strings.Contains(query, "migration_") {
		return
	}
	select {
	case c.queue <- question{query, slices.Clone(args)}:
	default:
		c.counts.skipped.Add(1)
	}
}

func (c *comparator) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-c.queue:
			if err := c.ask(ctx, q); err != nil && ctx.Err() == nil {
				c.counts.skipped.Add(1)
				c.log.DebugContext(ctx, "a sample could not be compared", "error", err)
			}
		}
	}
}

// ask compares the answers until they are equal, which nearly all are at the first look: one query
// of each side. They differ when they still do after everything pending was applied, and the
// primary's answer is the same before and after.
func (c *comparator) ask(ctx context.Context, q question) error {
	v := c.known()
	if v == nil || v.near == nil || v.other == nil || v.Phase < Second || v.Phase > WriteNew {
		return nil
	}
	if c.isFilling(ctx, v) {
		return nil
	}
	for range compareTries {
		ours, err := answer(ctx, v.near.DB, q)
		if err != nil {
			return err
		}
		theirs, err := answer(ctx, v.other.DB, q)
		if err != nil {
			return err // most likely a text for the other dialect
		}
		if ours == theirs {
			c.counts.compared.Add(1)
			return nil
		}
		if err := c.apply.now(ctx); err != nil {
			return err
		}
		if theirs, err = answer(ctx, v.other.DB, q); err != nil {
			return err
		}
		again, err := answer(ctx, v.near.DB, q)
		if err != nil {
			return err
		}
		if ours != again {
			continue
		}
		c.counts.compared.Add(1)
		if ours == theirs {
			return nil
		}
		if err := c.apply.now(ctx); err != nil {
			return err
		}
		if theirs, err = answer(ctx, v.other.DB, q); err != nil || ours == theirs {
			return err
		}
		if again, err = answer(ctx, v.near.DB, q); err != nil || ours != again {
			continue
		}
		return c.note(ctx, v, Mismatch{Source: "read", Subject: strings.Join(strings.Fields(q.query), " "), Ours: ours, Theirs: theirs})
	}
	c.counts.skipped.Add(1)
	return nil
}

// answer is what a side says, as text. Rows that a query leaves in any order are put in one; a
// number is the same as its text, which is what the two make of sums.
func answer(ctx context.Context, db *sqldb.DB, q question) (string, error) {
	rows, err := db.Query(ctx, q.query, q.args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return "", err
	}
	var all []string
	s := newScanner(len(cols))
	for rows.Next() {
		r, err := s.row(rows)
		if err != nil {
			return "", err
		}
		if len(all) == maxAnswer {
			return "", fmt.Errorf("more than %d rows", maxAnswer)
		}
		for i, v := range r {
			if v != nil {
				r[i] = plain(v)
			}
		}
		all = append(all, show(r))
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), rows.Err()
}

// isFilling reports whether rows are still missing on the other side because nobody has brought
// them yet. It asks until they are there: what was filled in stays so as long as the epoch does.
func (c *comparator) isFilling(ctx context.Context, v *view) bool {
	now := v.named()
	if v.Phase >= ReadNew || c.filled == now {
		return false
	}
	done, err := c.matcher.filled(ctx, v)
	if err != nil || !done {
		return true
	}
	c.filled = now
	return false
}

// filled reports whether all rows were filled in.
func (m *matcher) filled(ctx context.Context, v *view) (bool, error) {
	points, err := savePoints(ctx, v.other.DB, "fill")
	if err != nil {
		return false, err
	}
	for _, t := range m.shapes(v.near) {
		if !points[t.name].ended {
			return false, nil
		}
	}
	return true, nil
}

// counters count what this process has done.
type counters struct {
	fromNew, fallback, compared, skipped atomic.Int64
	second, deferred, waits, pause       atomic.Int64
}
