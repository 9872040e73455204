package migrate

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// A move does not wait for a count that is only displayed. Counting a large table on a server
// exceeds the timeout of a read.
func TestCountOnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 3)
	begin(t, p)
	_, err := p.m.Advance(t.Context(), Freeze)
	must(t, err)
	p.faults[s.old.at].Fail(sqldbtest.Query, 1, nil) // the first query is the count
	must(t, p.m.fill(t.Context(), p.m.currentSnapshot()))
	if left := p.faults[s.old.at].Clear(); left != 0 {
		t.Fatal("nothing failed")
	}
	climbOn(t, p, WriteNew)
}

// Few rows are counted exactly; a server is asked for its estimate of many.
func TestCount(t *testing.T) {
	t.Parallel()
	eachOld(t, func(t *testing.T, s *site, p *process) {
		db := p.m.home.DB
		if n := Count(t.Context(), db, "accounts"); n != 3 {
			t.Errorf("%d accounts of 3", n)
		}
		if s.old.options().MySQL == "" {
			return
		}
		must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "ANALYZE TABLE accounts")
			return err
		}))
		if n := estimate(t.Context(), db, "accounts"); n < 1 || n > 10 {
			t.Errorf("the estimate of 3 accounts is %d", n)
		}
	})
}
