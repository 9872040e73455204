package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// gaps is how a session knows, on MySQL, that no smaller offset will become visible behind its
// back. An id is given out when a row is inserted and seen when its transaction commits, so others
// that are larger may be seen before. A missing id belongs to a transaction that runs, or to
// nobody: it was rolled back, or its row was trimmed. The session stops before it until
//
//   - its row appears, or
//   - it was given out Options.GapTime ago and a locking read of the topic, which meets the rows of transactions that run, finds nothing new.
//
// Ids are given out in their order: whoever sees one knows that all smaller ones were given out
// before. So a rollback delays the consumers by some seconds, many of them by no more than one does
// (somebody may have one in each second), and nothing is ever passed over. (Where ids go in steps
// of more than one, as between the primaries of a Galera cluster, every id has a gap before it:
// such an installation needs a broker.)
type gaps struct {
	sure  int64  // every id of the topic up to here is a row that is visible, or never will be one
	marks []mark // the oldest first; of those that are old enough the last one alone
}

// mark is the largest id that was visible at a moment.
type mark struct {
	top int64
	at  time.Time
}

// old is an id up to which all were given out a while ago; 0: none is known.
func (g *gaps) old(since time.Duration) int64 {
	for len(g.marks) > 1 && time.Since(g.marks[1].at) >= since {
		g.marks = g.marks[1:]
	}
	if len(g.marks) == 0 || time.Since(g.marks[0].at) < since {
		return 0
	}
	return g.marks[0].top
}

const (
	gapTime = 5 * time.Second        // Options.GapTime; far longer than from an id's being given out to its row's being locked
	gapLook = 200 * time.Millisecond // until the session looks again

	gapPage  = 1000 // ids that one statement reads
	gapPages = 10   // of them before it is quicker to wait: those of a topic with little in it have many others' between
)

// withoutGaps cuts what was read before the first id that may still become visible, and returns
// when to look again; zero: when there is something new. inOrder says that the database was SQLite
// before it was read: there ids commit in order, unless the installation moved to another engine
// meanwhile.
func (s *session) withoutGaps(ctx context.Context, log []stream.Delivery, inOrder bool) ([]stream.Delivery, time.Duration, error) {
	if inOrder && s.o.db.Dialect() == sqldb.SQLite || len(log) == 0 {
		return log, 0, nil
	}
	g := &s.gaps
	g.sure = max(g.sure, s.read) // SQLite's were in order
	to := log[len(log)-1].Position.Offset
	err := s.closeGaps(ctx, to)
	if err == nil && g.sure < to {
		err = s.passOver(ctx, log)
	}
	if err == nil && g.sure < to {
		err = s.closeGaps(ctx, to)
	}
	if err != nil {
		return nil, 0, err
	}
	safe := slices.IndexFunc(log, func(d stream.Delivery) bool { return d.Position.Offset > g.sure })
	if safe < 0 {
		return log, 0, nil
	}
	return log[:safe], gapLook, nil
}

// closeGaps advances sure, up to an id that is visible, to the first gap or over some pages.
func (s *session) closeGaps(ctx context.Context, to int64) error {
	g := &s.gaps
	for page := 0; g.sure < to && page < gapPages; page++ {
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
				return nil
			}
			g.sure = id
		}
	}
	return nil
}

// passOver advances sure over all gaps that are old enough, up to the end of log, which is what is
// visible of the topic behind sure.
func (s *session) passOver(ctx context.Context, log []stream.Delivery) error {
	g := &s.gaps
	if err := s.mark(ctx); err != nil {
		return err
	}
	top := min(g.old(s.o.gapTime), log[len(log)-1].Position.Offset)
	if top <= g.sure {
		return nil
	}
	err := s.o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		lock := "" // of SQLite: the only transaction that writes is this one
		if tx.Dialect() == sqldb.MySQL {
			lock = " FOR UPDATE NOWAIT"
		}
		rows, err := tx.Query(ctx, "SELECT id FROM outbox WHERE topic = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?"+lock,
			string(s.sub.Topic), g.sure, top, len(log)+1)
		ids, err := sqldb.Scan(rows, err, func(id *int64, scan func(...any) error) error { return scan(id) })
		if sqldb.IsLockTimeout(err) {
			return errFilled
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.ContainsFunc(log, func(d stream.Delivery) bool { return d.Position.Offset == id }) {
				return errFilled
			}
		}
		return nil
	})
	if errors.Is(err, errFilled) {
		return nil
	}
	if err == nil {
		g.sure = top
	}
	return err
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
