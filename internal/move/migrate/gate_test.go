package migrate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// climb starts a migration and advances it to a phase, satisfying all gates.
func climb(t *testing.T, p *process, to Phase) {
	t.Helper()
	report, err := p.m.Start(t.Context(), Request{ToDB: placeOf(p)})
	must(t, err)
	if !report.OK {
		t.Fatalf("the preflight refuses: %+v", report.Checks)
	}
	for at := Fill; ; {
		work(t, p)
		must(t, p.m.Verify(t.Context()))
		work(t, p)
		if at == to {
			return
		}
		if at, err = p.m.Advance(t.Context(), AnyPhase); err != nil {
			t.Fatalf("advance to %d: %v", at+1, err)
		}
	}
}

func placeOf(p *process) string {
	for at := range p.faults {
		if at != p.m.opt.Here {
			return at
		}
	}
	return ""
}

func work(t *testing.T, p *process) {
	t.Helper()
	must(t, p.m.participant.runOnce(t.Context()))
	must(t, p.m.participant.leadOnce(t.Context()))
}

func exec(t *testing.T, s *Side, query string, args ...any) {
	t.Helper()
	must(t, s.Unchecked.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		must(t, setApplying(ctx, tx, 1))
		if _, err := tx.Exec(ctx, query, args...); err != nil {
			return err
		}
		return setApplying(ctx, tx, 0)
	}))
}

// refused advances and expects that the gate is closed.
func refused(t *testing.T, p *process, gate string) {
	t.Helper()
	at := p.m.State().Phase
	_, err := p.m.Advance(t.Context(), AnyPhase)
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		t.Fatalf("advance from %d: %v, want it to be refused for its %s", at, err, gate)
	}
	for _, g := range r.Gates {
		if g.Name == gate && !g.OK {
			if now := p.m.State().Phase; now != at {
				t.Fatalf("refused, and at phase %d", now)
			}
			return
		}
	}
	t.Fatalf("refused for other reasons than the %s: %v", gate, err)
}

// TestGateStepByStep is C3: each external fault closes a gate, and after its repair the phase can
// be entered.
func TestGateStepByStep(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		gate   string
		at     Phase
		spoil  func(t *testing.T, p *process)
		repair func(t *testing.T, p *process)
	}{
		{"a stale stamp", "checksum", ReadNew, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().primary, "UPDATE migration_checksums SET ended_at = ended_at - ?", (25 * time.Hour).Milliseconds())
		}, verifyAgain},
		{"the stamp of a trial", "checksum", DualWrite, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().primary, "UPDATE migration_checksums SET marker = 'of a trial'")
		}, verifyAgain},
		{"a stamp of the other direction", "checksum", ReadNew, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().primary, "UPDATE migration_checksums SET term = term - 1")
		}, verifyAgain},
		{"an unequal row", "checksum", DualWrite, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "UPDATE ledgers SET finished = 7")
			verifyAgain(t, p)
		}, repairLedgers},
		{"a row too few", "checksum", DualWrite, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "DELETE FROM ledgers WHERE account_id = (SELECT MIN(account_id) FROM trees)")
			verifyAgain(t, p)
		}, repairLedgers},
		{"a row too many", "checksum", DualWrite, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "INSERT INTO released (file, size, released_at) VALUES ('zzz', 1, 1)")
			verifyAgain(t, p)
		}, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "DELETE FROM released")
			verifyAgain(t, p)
		}},
		{"an empty table", "target", ReadNew, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "DELETE FROM sessions")
		}, func(t *testing.T, p *process) {
			must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE sessions SET seen_at = 2")
				return err
			}))
			verifyAgain(t, p)
		}},
		{"another database of the same name", "target", ReadNew, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "UPDATE migration_side SET marker = 'made anew'")
		}, func(t *testing.T, p *process) {
			exec(t, sideOf(t, p, placeOf(p)), "UPDATE migration_side SET marker = ?", p.m.currentSnapshot().Marker)
		}},
		{"triggers that are gone", "target", ReadNew, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().primary, "DROP TRIGGER migration_upd_nodes")
		}, func(t *testing.T, p *process) {
			must(t, createTriggers(t.Context(), *p.m.currentSnapshot().primary, p.m.tablesFor(p.m.currentSnapshot().primary)))
		}},
		{"changes that cannot be applied", "lag", DualWrite, func(t *testing.T, p *process) {
			p.faults[placeOf(p)].FailAll(sqldbtest.Commit, nil)
			changeAll(t, p.db, accountsOf(t, p), 1)
		}, func(_ *testing.T, p *process) { p.faults[placeOf(p)].Clear() }},
		{"a mismatch that nobody has looked at", "mismatches", ReadNew, func(t *testing.T, p *process) {
			must(t, p.m.noteMismatch(t.Context(), p.m.currentSnapshot(), Mismatch{Source: "read", Subject: "SELECT 1", Ours: "1", Theirs: "2"}))
		}, func(t *testing.T, p *process) {
			all, err := p.m.Mismatches(t.Context(), 10)
			if err != nil || len(all) != 1 || all[0].Ours != "1" || all[0].Theirs != "2" {
				t.Fatalf("mismatches %+v, %v", all, err)
			}
			must(t, p.m.Explain(t.Context(), all[0].ID, Explanation{Who: "ann", Why: "a probe of ours"}))
		}},
		{"rows that are not filled in", "fill", Fill, func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "UPDATE migration_progress SET ended = 0 WHERE kind = 'fill' AND tbl = 'nodes'")
		}, func(t *testing.T, p *process) { work(t, p) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			p := s.mustStart(s.old)
			defer p.stop(t)
			seed(t, p.db, 3)
			climb(t, p, test.at)
			test.spoil(t, p)
			refused(t, p, test.gate)
			test.repair(t, p)
			if to, err := p.m.Advance(t.Context(), AnyPhase); err != nil || to != test.at+1 {
				t.Fatalf("repaired, and at phase %d: %v", to, err)
			}
		})
	}
}

func verifyAgain(t *testing.T, p *process) {
	must(t, p.m.Verify(t.Context()))
	work(t, p)
}

// repairLedgers changes the rows on the primary, so that they are applied again.
func repairLedgers(t *testing.T, p *process) {
	must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE ledgers SET version = version + 1")
		return err
	}))
	verifyAgain(t, p)
}

func accountsOf(t *testing.T, p *process) []drive.AccountID {
	rows, err := p.db.Query(t.Context(), "SELECT id FROM accounts")
	all, err := sqldb.Scan(rows, err, func(id *drive.AccountID, scan func(...any) error) error { return scan(id) })
	must(t, err)
	return all
}

// A phase takes effect only when each instance has heard of it, forward and back.
func TestGateNamesSilentInstance(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	f := &fleet{}
	s.member = func(*sqldb.DB) Member { return f.join() }
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 3)
	climb(t, p, DualWrite)
	deaf := s.mustStart(s.old)
	defer deaf.stop(t)
	refused(t, p, "instances")
	if _, err := p.m.Rollback(t.Context(), AnyPhase); err == nil {
		t.Fatal("went back past an instance that has not heard of the phase")
	}
	must(t, deaf.m.participant.runOnce(t.Context()))
	if to, err := p.m.Advance(t.Context(), AnyPhase); err != nil || to != ReadNew {
		t.Fatalf("heard, and at phase %d: %v", to, err)
	}
}

// The rows of the migration are verified when a process starts.
func TestStartAgainStepByStep(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, p *process)
		want  string
	}{
		{"the other side was made again", func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "DELETE FROM migration_side")
		}, "evidence does not hold"},
		{"the other side is empty", func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "DELETE FROM nodes")
		}, "evidence does not hold"},
		{"both say that they are the primary", func(t *testing.T, p *process) {
			exec(t, p.m.currentSnapshot().other, "UPDATE migration_side SET role = 1")
		}, "both sides"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			p := s.mustStart(s.old)
			seed(t, p.db, 3)
			climb(t, p, ReadNew)
			test.spoil(t, p)
			p.stop(t)
			p, err := s.start(s.old)
			if err == nil {
				p.stop(t)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("started with %v", err)
			}
		})
	}
}

// A process serves from the primary, whichever side it is configured for. A retired side refuses
// the start.
func TestStartOnEitherSide(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	seed(t, p.db, 3)
	climb(t, p, ReadNew)
	p.stop(t)

	early := s.mustStart(s.new) // the operator was too early
	if n := len(accountsOf(t, early)); n != 3 || early.m.currentSnapshot().nearIsHome {
		t.Fatalf("%d accounts, from the new side: %v", n, early.m.currentSnapshot().nearIsHome)
	}
	if to, err := early.m.Advance(t.Context(), AnyPhase); err != nil || to != WriteNew {
		t.Fatalf("at phase %d: %v", to, err)
	}
	changeAll(t, early.db, accountsOf(t, early), 1)
	work(t, early)
	must(t, early.m.Verify(t.Context()))
	work(t, early)
	must(t, early.m.Finish(t.Context()))
	must(t, early.m.DeleteBookkeeping(t.Context(), false))
	changeAll(t, early.db, accountsOf(t, early), 2)
	early.stop(t)

	if late, err := s.start(s.old); err == nil {
		late.stop(t)
		t.Fatal("a process started on the side that was left")
	}
	again := s.mustStart(s.new)
	defer again.stop(t)
	if again.m.State().ID != "" {
		t.Fatalf("still moving: %+v", again.m.State())
	}
	changeAll(t, again.db, accountsOf(t, again), 3)
}

// A transaction that is open at the switch is neither lost nor left on the old side.
func TestOpenTransactionRefusesSwitch(t *testing.T) {
	t.Parallel()
	s := newSite(t, onMySQL(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	id := seed(t, p.db, 3)[0]
	climb(t, p, ReadNew)
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- p.db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE ledgers SET finished = 41 WHERE account_id = ?", id)
			close(begun)
			<-end
			return err
		})
	}()
	<-begun
	if _, err := p.m.Advance(t.Context(), AnyPhase); !errors.Is(err, errOpen) {
		t.Fatalf("switched with %v", err)
	}
	if at := p.m.State().Phase; at != ReadNew {
		t.Fatalf("refused, and at phase %d", at)
	}
	close(end)
	must(t, <-done)
	if to, err := p.m.Advance(t.Context(), AnyPhase); err != nil || to != WriteNew {
		t.Fatalf("at phase %d: %v", to, err)
	}
	var finished int64
	must(t, p.db.For(id).QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", id).Scan(&finished))
	if finished != 41 || p.db.Dialect() != sqldb.SQLite {
		t.Fatalf("finished %d on %s", finished, p.db.Dialect())
	}
}

// Sides that the preflight must refuse.
func TestPreflightStepByStep(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, check string
		make        func(t *testing.T, s *site, p *process)
	}{
		{"another installation's", "empty", func(t *testing.T, s *site, _ *process) {
			other := s.mustStart(s.new)
			seed(t, other.db, 1)
			other.stop(t)
		}},
		{"the database in use", "other database", func(_ *testing.T, s *site, _ *process) { s.new = s.old }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			p := s.mustStart(s.old)
			defer p.stop(t)
			seed(t, p.db, 2)
			test.make(t, s, p)
			report, err := p.m.Start(t.Context(), Request{ToDB: s.new.at})
			must(t, err)
			for _, g := range report.Checks {
				if g.Name == test.check && !g.OK && !report.OK && p.m.State().ID == "" {
					return
				}
			}
			t.Fatalf("%+v", report)
		})
	}
	t.Run("only a look", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, onSQLite(t), onSQLite(t))
		p := s.mustStart(s.old)
		defer p.stop(t)
		seed(t, p.db, 2)
		report, err := p.m.Start(t.Context(), Request{ToDB: s.new.at, DryRun: true})
		if err != nil || !report.OK || report.Rows == 0 || p.m.State().ID != "" {
			t.Fatalf("%+v, %v", report, err)
		}
	})
}

// An interrupted finish is completed by the next process, and the old side refuses writes
// meanwhile.
func TestFinishSurvivesCrashAnywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	seed(t, p.db, 3)
	climb(t, p, WriteNew)
	must(t, updateRecord(t.Context(), p.m.currentSnapshot(), func(r *record) { r.Phase = NewOnly })) // and it crashes
	p.stop(t)
	p = s.mustStart(s.old)
	defer p.stop(t)
	work(t, p)
	changeAll(t, p.db, accountsOf(t, p), 1)
	work(t, p)
	n, err := countTriggers(t.Context(), p.m.currentSnapshot().primary.DB)
	must(t, err)
	left, err := countChanges(t.Context(), p.m.currentSnapshot().primary.DB)
	must(t, err)
	if v := p.m.currentSnapshot(); v.otherRecord.Role != retired || v.Phase != NewOnly || n != 0 || left != 0 {
		t.Fatalf("role %d of the old side, phase %d, %d triggers and %d changes on the new one", v.otherRecord.Role, v.Phase, n, left)
	}
}

// The primary serves while the other side is unreachable, also from the start, and the other
// catches up.
func TestOtherSideUnreachable(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	seed(t, p.db, 3)
	climb(t, p, ReadNew)
	must(t, p.m.Percent(t.Context(), 100, nil))
	p.stop(t)
	dir := filepath.Dir(s.new.at)
	must(t, os.Rename(dir, dir+" away"))
	p = s.mustStart(s.old)
	defer func() { p.stop(t) }()
	changeAll(t, p.db, accountsOf(t, p), 1)
	id := accountsOf(t, p)[0]
	var finished int64
	must(t, p.db.For(id).QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", id).Scan(&finished))
	if finished != 1 {
		t.Fatalf("read %d", finished)
	}
	refused(t, p, "target")
	must(t, os.Rename(dir+" away", dir))
	work(t, p)
	must(t, p.m.apply.applyPending(t.Context()))
	v := p.m.currentSnapshot()
	if v.other == nil {
		t.Fatal("the other side is back, and was not found")
	}
	if diff := cmp.Diff(dump(t, p.m, v.primary), dump(t, p.m, v.other)); diff != "" {
		t.Fatalf("the sides differ (-primary +secondary):\n%s", diff)
	}
}

// A repeated advance or rollback has one effect, and phase 5 cannot be entered by accident.
func TestStepRequiresItsPhase(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 3)
	climb(t, p, Fill)
	if to, err := p.m.Advance(t.Context(), Fill); err != nil || to != DualWrite {
		t.Fatalf("phase %d: %v", to, err)
	}
	stays := func(what string, at Phase, step func(ctx context.Context, from Phase) (Phase, error), from Phase) {
		t.Helper()
		if _, err := step(t.Context(), from); drive.KindOf(err) != drive.WrongState {
			t.Errorf("%s: %v", what, err)
		}
		if now := p.m.State().Phase; now != at {
			t.Errorf("%s led to phase %d", what, now)
		}
	}
	stays("another advance from 1", DualWrite, p.m.Advance, Fill)
	stays("a rollback from 3", DualWrite, p.m.Rollback, ReadNew)
	for at := DualWrite; at < WriteNew; at++ {
		must(t, p.m.Verify(t.Context()))
		work(t, p)
		if to, err := p.m.Advance(t.Context(), at); err != nil || to != at+1 {
			t.Fatalf("phase %d: %v", to, err)
		}
	}
	must(t, p.m.Verify(t.Context()))
	work(t, p)
	stays("an advance from 4", WriteNew, p.m.Advance, WriteNew)
}
