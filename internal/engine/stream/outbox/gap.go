package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// gaps tracks, on MySQL, up to which id a session has seen all rows. An id is assigned at insert
// and becomes visible at commit, so greater ids may be visible earlier. A missing id belongs to a
// running transaction, or to none after a rollback or a trim. The session stops before a missing id
// until
//
//   - its row appears, or
//   - it was assigned Options.GapTime ago, and a locking read of the topic, which sees the rows of running transactions, finds no new row.
//
// Ids are assigned in order: a visible id proves that all smaller ones were assigned before. A
// rollback so delays the consumers by some seconds, and many rollbacks by no more than one, and no
// record is skipped. (If ids increase by more than one, as between the primaries of a Galera
// cluster, every id has a gap before it. Such an installation needs a broker.)
type gaps struct {
	complete   int64       // every id of the topic up to here is visible or will never be
	watermarks []watermark // the oldest first; only one of them is older than GapTime
}

// watermark is the greatest id that was visible at a time.
type watermark struct {
	top int64
	at  time.Time
}

// assignedBefore returns an id up to which all ids were assigned at least age ago; 0: unknown.
func (g *gaps) assignedBefore(age time.Duration) int64 {
	for len(g.watermarks) > 1 && time.Since(g.watermarks[1].at) >= age {
		g.watermarks = g.watermarks[1:]
	}
	if len(g.watermarks) == 0 || time.Since(g.watermarks[0].at) < age {
		return 0
	}
	return g.watermarks[0].top
}

const (
	gapTime  = 5 * time.Second        // default of Options.GapTime; far longer than the time between assigning an id and locking its row
	gapPause = 200 * time.Millisecond // pause before the session reads again

	gapPage  = 1000 // ids per statement
	gapPages = 10   // statements before waiting is quicker: a quiet topic has many ids of other topics in between
)

// cutAtGap removes from log the records after the first id that may still become visible. It
// returns the time to wait before the next read; zero: wait for new records. inOrder says that the
// database was SQLite before the read; SQLite commits ids in order, but the installation may have
// moved to another engine meanwhile.
func (s *session) cutAtGap(ctx context.Context, log []stream.Delivery, inOrder bool) ([]stream.Delivery, time.Duration, error) {
	if inOrder && s.o.db.Dialect() == sqldb.SQLite || len(log) == 0 {
		return log, 0, nil
	}
	g := &s.gaps
	g.complete = max(g.complete, s.read) // SQLite's ids were in order
	to := log[len(log)-1].Position.Offset
	err := s.advance(ctx, to)
	if err == nil && g.complete < to {
		err = s.skipOldGaps(ctx, log)
	}
	if err == nil && g.complete < to {
		err = s.advance(ctx, to)
	}
	if err != nil {
		return nil, 0, err
	}
	safe := slices.IndexFunc(log, func(d stream.Delivery) bool { return d.Position.Offset > g.complete })
	if safe < 0 {
		return log, 0, nil
	}
	return log[:safe], gapPause, nil
}

// advance moves complete, the id up to which no row can still appear, over consecutive ids up to
// the visible id to. It stops at the first gap and after gapPages pages.
func (s *session) advance(ctx context.Context, to int64) error {
	g := &s.gaps
	for page := 0; g.complete < to && page < gapPages; page++ {
		rows, err := s.o.db.Query(ctx, "SELECT id FROM outbox WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", g.complete, to, gapPage)
		ids, err := sqldb.Scan(rows, err, func(id *int64, scan func(...any) error) error { return scan(id) })
		if err != nil {
			return err
		}
		if len(ids) == 0 { // trimmed meanwhile: no id to wait for
			g.complete = to
		}
		for _, id := range ids {
			if id > g.complete+1 {
				return nil
			}
			g.complete = id
		}
	}
	return nil
}

// skipOldGaps advances complete over all gaps older than GapTime, up to the end of log: no
// transaction can still fill them. log must not be empty and contain all visible rows of the topic
// after complete. If a gap turns out to be filled or locked, it changes nothing and returns nil.
func (s *session) skipOldGaps(ctx context.Context, log []stream.Delivery) error {
	g := &s.gaps
	if err := s.recordWatermark(ctx); err != nil {
		return err
	}
	top := min(g.assignedBefore(s.o.gapTime), log[len(log)-1].Position.Offset)
	if top <= g.complete {
		return nil
	}
	err := s.o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		lock := "" // SQLite needs no lock: this is the only writing transaction
		if tx.Dialect() == sqldb.MySQL {
			lock = " FOR UPDATE NOWAIT"
		}
		rows, err := tx.Query(ctx, "SELECT id FROM outbox WHERE topic = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?"+lock,
			string(s.sub.Topic), g.complete, top, len(log)+1)
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
		g.complete = top
	}
	return err
}

// errFilled reports that a gap contains a row, committed or not.
var errFilled = errors.New("the gap is filled")

// recordWatermark reads the greatest id in the outbox and appends it, with the time, to the
// session's watermarks. It does nothing if the last watermark is very recent or the id has not
// grown.
func (s *session) recordWatermark(ctx context.Context) error {
	g := &s.gaps
	last := len(g.watermarks) - 1
	if last >= 0 && time.Since(g.watermarks[last].at) < min(gapPause, s.o.gapTime) {
		return nil
	}
	var top int64
	if err := s.o.db.QueryRow(ctx, "SELECT COALESCE(MAX(id), 0) FROM outbox").Scan(&top); err != nil {
		return err
	}
	if last < 0 || top > g.watermarks[last].top {
		g.watermarks = append(g.watermarks, watermark{top, time.Now()})
	}
	return nil
}
