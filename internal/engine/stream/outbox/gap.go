package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// gaps is how a session knows, on MySQL, that no smaller offset will become visible behind its
// back. An id is given out when a row is inserted and seen when its transaction commits, so others
// that are larger may be seen before. A missing id belongs to a transaction that runs, or to
// nobody: it was rolled back, or its row was trimmed. The session stops before it until
//
//   - its row appears, or
//   - it was given out Options.GapTime ago and a locking read, which meets the row of a transaction that runs, finds nothing.
//
// Ids are given out in their order: whoever sees one knows that all smaller ones were given out
// before. So a rollback delays the consumers by some seconds, many of them by no more than one does
// (somebody may have one in each second), and nothing is ever passed over. (Where ids go in steps
// of more than one, as between the primaries of a Galera cluster, every id has a gap before it:
// such an installation needs a broker.)
type gaps struct {
	sure  int64  // every id up to here is a row that is visible, or never will be one
	marks []mark // the oldest first; of those that are old enough the last one alone
}

// mark is the largest id that was visible at a moment.
type mark struct {
	top int64
	at  time.Time
}

// old reports whether an id was given out a while ago.
func (g *gaps) old(id int64, since time.Duration) bool {
	for len(g.marks) > 1 && time.Since(g.marks[1].at) >= since {
		g.marks = g.marks[1:]
	}
	return len(g.marks) > 0 && g.marks[0].top >= id && time.Since(g.marks[0].at) >= since
}

const (
	gapTime = 5 * time.Second        // Options.GapTime; far longer than from an id's being given out to its row's being locked
	gapLook = 200 * time.Millisecond // until the session looks again
	gapPage = 1000
)

// withoutGaps cuts what was read before the first id that may still become visible, and returns
// when to look again; zero: when there is something new. inOrder says that the database was SQLite
// before it was read: there ids commit in order, unless the installation moved to another engine
// meanwhile.
func (s *session) withoutGaps(ctx context.Context, log []stream.Delivery, inOrder bool) ([]stream.Delivery, time.Duration, error) {
	if inOrder && s.o.db.Dialect() == sqldb.SQLite || len(log) == 0 {
		return log, 0, nil
	}
	err := s.closeGaps(ctx, log[len(log)-1].Position.Offset)
	if err != nil {
		return nil, 0, err
	}
	safe := slices.IndexFunc(log, func(d stream.Delivery) bool { return d.Position.Offset > s.gaps.sure })
	if safe < 0 {
		return log, 0, nil
	}
	return log[:safe], gapLook, nil
}

// closeGaps advances sure, up to an id that is visible or to the first gap that stays.
func (s *session) closeGaps(ctx context.Context, to int64) error {
	g := &s.gaps
	for g.sure < to {
		rows, err := s.o.db.Query(ctx, "SELECT id FROM outbox WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", g.sure, to, gapPage)
		ids, err := sqldb.Scan(rows, err, func(id *int64, scan func(...any) error) error { return scan(id) })
		if err != nil {
			return err
		}
		if len(ids) == 0 { // trimmed since: nothing is left to wait for
			g.sure = to
		}
		for _, id := range ids {
			if id > g.sure+1 {
				if stays, err := s.watch(ctx, id); stays || err != nil {
					return err
				}
			}
			g.sure = id
		}
	}
	return nil
}

// watch reports whether what is missing between sure and the next id must be waited for.
func (s *session) watch(ctx context.Context, next int64) (stays bool, err error) {
	g := &s.gaps
	if !g.old(next, s.o.gapTime) {
		if err := s.mark(ctx); err != nil || !g.old(next, s.o.gapTime) {
			return true, err
		}
	}
	err = s.o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		lock := "" // of SQLite: the only transaction that writes is this one
		if tx.Dialect() == sqldb.MySQL {
			lock = " FOR UPDATE NOWAIT"
		}
		var id int64
		err := tx.QueryRow(ctx, "SELECT id FROM outbox WHERE id > ? AND id < ? ORDER BY id LIMIT 1"+lock, g.sure, next).Scan(&id)
		switch {
		case drive.IsKind(err, drive.NotFound):
			return nil
		case err == nil, sqldb.IsLockTimeout(err):
			return errFilled
		}
		return err
	})
	if errors.Is(err, errFilled) {
		return true, nil
	}
	return err != nil, err
}

// errFilled says that there is a row in a gap, committed by now or not.
var errFilled = errors.New("the gap is filled")

// mark notes which ids have been given out by now, unless it has just done so.
func (s *session) mark(ctx context.Context) error {
	g := &s.gaps
	last := len(g.marks) - 1
	if last >= 0 && time.Since(g.marks[last].at) < min(gapLook, s.o.gapTime) {
		return nil
	}
	var top int64
	if err := s.o.db.QueryRow(ctx, "SELECT COALESCE(MAX(id), 0) FROM outbox").Scan(&top); err != nil {
		return err
	}
	if last < 0 || top > g.marks[last].top {
		g.marks = append(g.marks, mark{top, time.Now()})
	}
	return nil
}
