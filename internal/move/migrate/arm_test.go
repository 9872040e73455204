package migrate

import (
	"errors"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// A process that creates triggers late does not drop triggers, even briefly, that another process
// in the next phase relies on. It crashes at the worst moment.
func TestConcurrentPrepare(t *testing.T) {
	t.Parallel()
	eachOld(t, func(t *testing.T, s *site, p *process) {
		late := s.mustStart(s.old)
		defer late.stop(t)
		begin(t, p)
		v, err := late.m.requireStep(t.Context())
		must(t, err)
		_, err = p.m.Advance(t.Context(), Freeze)
		must(t, err)
		work(t, p)

		late.faults[s.old.at].Fail(sqldbtest.Exec, 2, nil) // between dropping and creating a trigger
		_ = late.m.prepare(t.Context(), v)                 // any result
		wantWhole(t, p, 1)
		climbOn(t, p, WriteNew)
	})
}

// Triggers of another release are replaced; triggers created concurrently are accepted.
func TestExistingTriggersStay(t *testing.T) {
	t.Parallel()
	eachOld(t, func(t *testing.T, _ *site, p *process) {
		climb(t, p, Fill)
		v := p.m.currentSnapshot()
		tables := p.m.tablesFor(v.primary)
		should, err := triggersOf(t.Context(), v.primary.DB)
		must(t, err)
		exec(t, v.primary, "DROP TRIGGER migration_upd_nodes")
		exec(t, v.primary, "CREATE TRIGGER migration_upd_nodes AFTER UPDATE ON nodes FOR EACH ROW BEGIN DELETE FROM migration_waits; END")
		for range 2 {
			must(t, createTriggers(t.Context(), *v.primary, tables))
			have, err := triggersOf(t.Context(), v.primary.DB)
			must(t, err)
			if len(have) != len(should) || have["migration_upd_nodes"] != should["migration_upd_nodes"] {
				t.Fatalf("%d triggers instead of %d, and that of nodes is %s", len(have), len(should), have["migration_upd_nodes"])
			}
		}
		for _, tab := range tables {
			must(t, tab.createTrigger(t.Context(), *v.primary, "UPDATE", "")) // read before the other created it
		}
	})
}

// Triggers created after a rollback record nothing, and their creator does not continue.
func TestRollbackDuringPrepare(t *testing.T) {
	t.Parallel()
	eachOld(t, func(t *testing.T, _ *site, p *process) {
		climb(t, p, Fill)
		near, tables := p.m.currentSnapshot().primary, p.m.tablesFor(p.m.currentSnapshot().primary)
		_, err := p.m.Rollback(t.Context(), Fill)
		must(t, err)
		must(t, createTriggers(t.Context(), *near, tables))
		changeAll(t, p.db, accountsOf(t, p), 1)
		if n, err := countChanges(t.Context(), near.DB); err != nil || n != 0 {
			t.Errorf("%d changes were captured, %v", n, err)
		}
		climb(t, p, DualWrite)
		wantWhole(t, p, 2)
	})
}

// Of a concurrent step forward and back from phase 0, one succeeds.
func TestConcurrentAdvanceAndRollback(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 3)
	begin(t, p)
	before, err := p.m.requireStep(t.Context())
	must(t, err)
	_, err = p.m.Advance(t.Context(), Freeze)
	must(t, err)
	if err := p.m.abort(t.Context(), before); !errors.Is(err, errOvertaken) {
		t.Errorf("back after forward: %v", err)
	}
	climbOn(t, p, WriteNew)

	other := newSite(t, onSQLite(t), onSQLite(t))
	q := other.mustStart(other.old)
	defer q.stop(t)
	begin(t, q)
	before, err = q.m.requireStep(t.Context())
	must(t, err)
	must(t, q.m.prepare(t.Context(), before))
	v, err := q.m.requireStep(t.Context())
	must(t, err)
	must(t, updateRecord(t.Context(), v, func(r *record) { r.Phase = Freeze })) // the first step of a rollback
	if err := q.m.enter(t.Context(), before, Fill); !errors.Is(err, errOvertaken) {
		t.Errorf("forward after back: %v", err)
	}
}

// eachOld runs a test for an old side of each kind.
func eachOld(t *testing.T, test func(t *testing.T, s *site, p *process)) {
	t.Helper()
	for _, pair := range []int{0, 2} {
		t.Run(pairs[pair].name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pairs[pair].from(t), pairs[pair].to(t))
			p := s.mustStart(s.old)
			defer p.stop(t)
			seed(t, p.db, 3)
			test(t, s, p)
		})
	}
}

// climbOn advances from phase 1 to a phase.
func climbOn(t *testing.T, p *process, to Phase) {
	t.Helper()
	for p.m.State().Phase < to {
		work(t, p)
		must(t, p.m.Verify(t.Context()))
		work(t, p)
		_, err := p.m.Advance(t.Context(), AnyPhase)
		must(t, err)
	}
}

// begin does what Start does before it enters phase 1.
func begin(t *testing.T, p *process) {
	t.Helper()
	req := Request{ToDB: placeOf(p)}
	must(t, p.m.openHome(t.Context()))
	report, err := p.m.inspector.preflight(t.Context(), req)
	must(t, err)
	if !report.OK {
		t.Fatalf("the preflight refuses: %+v", report.Checks)
	}
	must(t, p.m.begin(t.Context(), req))
}
