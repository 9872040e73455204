package migrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"example.org/smartdrive/internal/engine/sqldb"
)

// comparator runs a sample of read queries on both sides and compares the answers, in the
// background, so that requests never wait for a comparison.
type comparator struct {
	*matcher
	counts *counters
	queue  chan sampledQuery
	filled epochKey // epoch in which all rows were seen to be filled in; used by run only
}

// epochKey identifies an epoch of one migration; epochs of different migrations are never equal.
type epochKey struct {
	migration string
	epoch     int64
}

// epochKey returns the migration and epoch of the snapshot, as a key for what is cached per epoch.
func (v *snapshot) epochKey() epochKey { return epochKey{v.Migration, v.Epoch} }

// sampledQuery is a query with its arguments that is chosen to be run at both sides, to compare the
// answers.
type sampledQuery struct {
	query string
	args  []any
}

const (
	maxAnswer    = 1000 // most rows of a compared answer
	compareTries = 4    // most attempts per query
)

// newComparator returns a comparator with an empty queue.
func newComparator(m *matcher, counts *counters) *comparator {
	return &comparator{matcher: m, counts: counts, queue: make(chan sampledQuery, 64)}
}

// offer queues the query with the probability Options.Sample, and never blocks. If the queue is
// full, it counts a skipped sample.
func (c *comparator) offer(query string, args []any) {
	if rand.Float64() >= c.opt.Sample || strings.Contains(query, "migration_") {
		return
	}
	select {
	case c.queue <- sampledQuery{query, slices.Clone(args)}:
	default:
		c.counts.skipped.Add(1)
	}
}

// run compares the answers to queued queries, one after another, until ctx ends. A query that
// cannot be compared counts as skipped.
func (c *comparator) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-c.queue:
			if err := c.compareAnswers(ctx, q); err != nil && ctx.Err() == nil {
				c.counts.skipped.Add(1)
				c.log.DebugContext(ctx, "a sampled query could not be compared", "error", err)
			}
		}
	}
}

// compareAnswers compares the answers of both sides, usually with one query each. It reports a
// mismatch only if the answers still differ after all pending changes were applied, and the
// primary's answer is the same before and after.
func (c *comparator) compareAnswers(ctx context.Context, q sampledQuery) error {
	v := c.currentSnapshot()
	if v == nil || v.primary == nil || v.other == nil || v.Phase < DualWrite || v.Phase > WriteNew {
		return nil
	}
	if c.isFilling(ctx, v) {
		return nil
	}
	for range compareTries {
		ours, err := answerText(ctx, v.primary.DB, q)
		if err != nil {
			return err
		}
		theirs, err := answerText(ctx, v.other.DB, q)
		if err != nil {
			return err // probably a query for the other dialect
		}
		if ours == theirs {
			c.counts.compared.Add(1)
			return nil
		}
		if err := c.apply.applyPending(ctx); err != nil {
			return err
		}
		if theirs, err = answerText(ctx, v.other.DB, q); err != nil {
			return err
		}
		again, err := answerText(ctx, v.primary.DB, q)
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
		if err := c.apply.applyPending(ctx); err != nil {
			return err
		}
		if theirs, err = answerText(ctx, v.other.DB, q); err != nil || ours == theirs {
			return err
		}
		if again, err = answerText(ctx, v.primary.DB, q); err != nil || ours != again {
			continue
		}
		return c.noteMismatch(ctx, v, Mismatch{Source: "read", Subject: strings.Join(strings.Fields(q.query), " "), Ours: ours, Theirs: theirs})
	}
	c.counts.skipped.Add(1)
	return nil
}

// answerText returns the answer of a side as text. Rows are sorted, and numbers equal their text
// form, because sums differ in type between the dialects.
func answerText(ctx context.Context, db *sqldb.DB, q sampledQuery) (string, error) {
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
				r[i] = textOf(v)
			}
		}
		all = append(all, formatRow(r))
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), rows.Err()
}

// isFilling reports whether rows may be missing on the other side because filling has not ended. It
// caches the end of filling per epoch.
func (c *comparator) isFilling(ctx context.Context, v *snapshot) bool {
	now := v.epochKey()
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

// filled reports whether the filler has copied each table of the primary to its end. The secondary
// must be open.
func (m *matcher) filled(ctx context.Context, v *snapshot) (bool, error) {
	points, err := savePoints(ctx, v.other.DB, "fill")
	if err != nil {
		return false, err
	}
	for _, t := range m.tablesFor(v.primary) {
		if !points[t.name].ended {
			return false, nil
		}
	}
	return true, nil
}

// counters counts the reads and writes of this process; see Reads and Writes.
type counters struct {
	fromNew, fallback, compared, skipped atomic.Int64
	secondWrites, deferred, waits, pause atomic.Int64
}
