package migrate

import (
	"context"
	"errors"
	"testing"

	"smartdrive/internal/engine/sqldb"
)

// TestArrived: what instances with the old settings left is seen to once none of them is alive,
// once for each move, and again where it failed.
func TestArrived(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	f := &fleet{}
	var last *seat
	s.member = func(*sqldb.DB) Member { last = f.join(); return last }
	arrived, fails := 0, errors.New("the queue is away")
	s.party.Arrived = func(context.Context) error { arrived++; return fails }
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
	must(t, next.m.Drop(t.Context(), false))
	if arrived != 2 {
		t.Errorf("run %d times: again by another process", arrived)
	}
}

// TestArrivedBeforeItIsForgotten: the step that forgets a move comes before any look of a process
// that takes part in it.
func TestArrivedBeforeItIsForgotten(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	arrived := 0
	s.party.Arrived = func(context.Context) error { arrived++; return nil }
	p := finished(t, s)
	defer p.stop(t)
	arrived = 0
	exec(t, p.m.currentView().primary, "DELETE FROM migration_notes")
	must(t, p.m.Drop(t.Context(), false))
	if arrived != 1 {
		t.Errorf("run %d times", arrived)
	}
}

// TestNothingLagsBehindInTheEnd: what the triggers wrote down between the last step and their end
// is nothing that waits.
func TestNothingLagsBehindInTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := finished(t, s)
	defer p.stop(t)
	exec(t, p.m.currentView().primary, "INSERT INTO migration_changes (tbl, k, account) VALUES ('outbox', 'x', '')")
	status, err := p.m.Status(t.Context())
	must(t, err)
	if status.Lag != 0 {
		t.Errorf("%d changes wait to be brought to a side that was left", status.Lag)
	}
}
