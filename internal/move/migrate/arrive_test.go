package migrate

import (
	"context"
	"errors"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// Party.OnArrived runs once per move after the last instance with the old settings has ended, and
// again if it failed.
func TestArrivedRunsOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	f := &fleet{}
	var last *seat
	s.member = func(*sqldb.DB) Member { last = f.join(); return last }
	arrived, fails := 0, errors.New("the queue is away")
	s.party.OnArrived = func(context.Context) error { arrived++; return fails }
	old := s.mustStart(s.old)
	defer old.stop(t)
	stays := last
	old.m.party.Ready = func(at State) error {
		if at.Phase == NewOnly {
			return errors.New("it was started with the old settings")
		}
		return nil
	}
	seed(t, old.db, 2)
	climb(t, old, WriteNew)
	must(t, old.m.Finish(t.Context()))
	work(t, old)
	p := s.mustStart(s.new)
	defer p.stop(t)
	work(t, p)
	if arrived > 0 {
		t.Fatal("an instance with the old settings is alive, and nobody waits for it")
	}

	stays.leave()
	must(t, p.m.participant.runOnce(t.Context()))
	if err := p.m.participant.leadOnce(t.Context()); !errors.Is(err, fails) || arrived != 1 {
		t.Fatalf("run %d times: %v", arrived, err)
	}
	fails = nil
	work(t, p)
	work(t, p)
	if arrived != 2 {
		t.Errorf("run %d times; it failed once", arrived)
	}
	next := s.mustStart(s.new)
	defer next.stop(t)
	work(t, next)
	must(t, next.m.DeleteBookkeeping(t.Context(), false))
	if arrived != 2 {
		t.Errorf("run %d times: again by another process", arrived)
	}
}

// Drop runs Party.OnArrived if no participant has run it yet.
func TestArrivedRunsBeforeDrop(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	arrived := 0
	s.party.OnArrived = func(context.Context) error { arrived++; return nil }
	p := finished(t, s)
	defer p.stop(t)
	arrived = 0
	exec(t, p.m.currentSnapshot().primary, "DELETE FROM migration_notes")
	must(t, p.m.DeleteBookkeeping(t.Context(), false))
	if arrived != 1 {
		t.Errorf("run %d times", arrived)
	}
}

// Changes recorded between the last step and the drop of the triggers are no lag.
func TestNoLagAfterFinish(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := finished(t, s)
	defer p.stop(t)
	exec(t, p.m.currentSnapshot().primary, "INSERT INTO migration_changes (tbl, k, account) VALUES ('outbox', 'x', '')")
	status, err := p.m.Status(t.Context())
	must(t, err)
	if status.Lag != 0 {
		t.Errorf("%d changes wait to be brought to a side that was left", status.Lag)
	}
}
