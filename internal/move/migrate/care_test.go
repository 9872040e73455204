package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// An instance that has heard of an epoch but cannot act by it is named with the reason. It keeps
// the next phase closed but does not prevent a rollback.
func TestUnreadyInstanceReportsReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		cut  func(p *process, fail bool)
		why  string
	}{
		{"its contents", func(p *process, fail bool) {
			p.m.party.Ready = func(State) error {
				if fail {
					return errors.New("the bucket answers 403")
				}
				return nil
			}
		}, "the bucket answers 403"},
		{"its database", func(p *process, fail bool) {
			if fail {
				p.faults[placeOf(p)].FailAll("", errors.New("no route to host"))
			} else {
				p.faults[placeOf(p)].Clear()
			}
		}, "no route to host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			f := &fleet{}
			s.member = func(*sqldb.DB) Member { return f.join() }
			p := s.mustStart(s.old)
			defer p.stop(t)
			seed(t, p.db, 2)
			climb(t, p, Fill)
			lame := s.mustStart(s.old)
			defer lame.stop(t)
			must(t, lame.m.participant.runOnce(t.Context()))
			test.cut(lame, true)
			_, err := p.m.Advance(t.Context(), AnyPhase)
			must(t, err)
			must(t, lame.m.participant.runOnce(t.Context())) // it has heard of phase 2
			verifyAgain(t, p)

			refused(t, p, "instances")
			status, err := p.m.Status(t.Context())
			must(t, err)
			if g := gateNamed(status.Gate, "instances"); g.OK || !strings.Contains(g.Detail, "start 2 cannot: ") || !strings.Contains(g.Detail, test.why) {
				t.Errorf("the gate says %+v", g)
			}
			for _, in := range status.Instances {
				if in.ID == 2 && (in.Heard != status.Epoch || in.Epoch >= status.Epoch || !strings.Contains(in.Why, test.why)) {
					t.Errorf("the instance is shown as %+v", in)
				}
			}
			if to, err := p.m.Rollback(t.Context(), AnyPhase); err != nil || to != Fill { // the way out
				t.Fatalf("went back to %d: %v", to, err)
			}
			must(t, lame.m.participant.runOnce(t.Context()))
			refused(t, p, "instances")
			test.cut(lame, false)
			must(t, lame.m.participant.runOnce(t.Context()))
			if to, err := p.m.Advance(t.Context(), AnyPhase); err != nil || to != DualWrite {
				t.Fatalf("it can act again, and at phase %d: %v", to, err)
			}
		})
	}
}

func gateNamed(all []Gate, name string) Gate {
	for _, g := range all {
		if g.Name == name {
			return g
		}
	}
	return Gate{}
}

// An explanation is stored with its author and shown by the gate, which counts only unexplained
// mismatches.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 2)
	climb(t, p, DualWrite)
	for i := range 2 {
		must(t, p.m.noteMismatch(t.Context(), p.m.currentSnapshot(), Mismatch{Source: "read", Subject: fmt.Sprint("SELECT ", i), Ours: "1", Theirs: "2"}))
	}
	for _, bad := range []struct {
		id   int64
		why  string
		kind drive.Kind
	}{{1, "  ", drive.BadRequest}, {1, strings.Repeat("x", maxReason+1), drive.BadRequest}, {99, "why", drive.NotFound}} {
		if err := p.m.Explain(t.Context(), bad.id, Explanation{"ann", bad.why}); !drive.IsKind(err, bad.kind) {
			t.Errorf("explained %+v: %v", bad, err)
		}
	}
	must(t, p.m.Explain(t.Context(), 1, Explanation{"ann", "a clock of theirs"}))
	must(t, p.m.Explain(t.Context(), 1, Explanation{"bob", "something else"})) // too late
	refused(t, p, "mismatches")
	must(t, p.m.Explain(t.Context(), 2, Explanation{"bob", "the same"}))
	all, err := p.m.Mismatches(t.Context(), 10)
	must(t, err)
	if len(all) != 2 || all[1].ExplainedBy != "ann" || all[1].Reason != "a clock of theirs" || all[1].ExplainedAt == 0 || !all[0].Explained {
		t.Errorf("mismatches %+v", all)
	}
	g, err := p.m.checkMismatches(t.Context(), p.m.currentSnapshot())
	must(t, err)
	if !g.OK || !strings.Contains(g.Detail, "1 by ann: a clock of theirs") || !strings.Contains(g.Detail, "2 by bob: the same") {
		t.Errorf("the gate says %+v", g)
	}
	if to, err := p.m.Advance(t.Context(), AnyPhase); err != nil || to != ReadNew {
		t.Errorf("explained, and at phase %d: %v", to, err)
	}
}

// The pace of the start is used, a changed pace reaches other instances, and the resulting rate is
// right.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p           Pace
		rows, bytes int
		want        time.Duration
	}{
		{Pace{}, 1000, 1 << 20, 0},
		{Pace{Rows: 100}, 50, 1 << 20, time.Second / 2},
		{Pace{Rows: 100, Bytes: 1 << 20}, 50, 2 << 20, 2 * time.Second},
		{Pace{Bytes: 1 << 20}, 50, 1 << 19, time.Second / 2},
	} {
		if got := c.p.due(c.rows, c.bytes); got != c.want {
			t.Errorf("%+v: %d rows of %d bytes take %s, want %s", c.p, c.rows, c.bytes, got, c.want)
		}
	}
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 2)
	_, err := p.m.Start(t.Context(), Request{ToDB: s.new.at, Pace: Pace{Rows: 7}})
	must(t, err)
	other := s.mustStart(s.old)
	defer other.stop(t)
	must(t, other.m.participant.runOnce(t.Context()))
	if got := other.m.State().Pace; got != (Pace{Rows: 7}) {
		t.Errorf("another instance goes by %+v", got)
	}
	bytes, none, wrong := int64(9), int64(0), int64(-1)
	must(t, p.m.SetPace(t.Context(), PaceChange{Bytes: &bytes}))
	must(t, other.m.participant.runOnce(t.Context()))
	if got := other.m.State().Pace; got != (Pace{7, 9}) {
		t.Errorf("after a change another instance goes by %+v", got)
	}
	if err := p.m.SetPace(t.Context(), PaceChange{Rows: &wrong}); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a pace below nothing: %v", err)
	}
	must(t, p.m.SetPace(t.Context(), PaceChange{Rows: &none, Bytes: &none}))
	for range 3 { // the switch carries it over, and the note about the old side
		work(t, p)
		verifyAgain(t, p)
		if p.m.State().Phase == DualWrite {
			must(t, p.m.SetPace(t.Context(), PaceChange{Rows: &bytes}))
			must(t, p.m.SetPace(t.Context(), PaceChange{Rows: &none}))
			must(t, p.m.SetPace(t.Context(), PaceChange{Bytes: new(int64(1 << 40))}))
		}
		_, err := p.m.Advance(t.Context(), AnyPhase)
		must(t, err)
	}
	work(t, p)
	if got := p.m.State(); got.Phase != WriteNew || got.Pace != (Pace{Bytes: 1 << 40}) {
		t.Errorf("after the switch %+v", got)
	}
}

// A batch ends at its byte limit before its change limit, and a row larger than a batch is applied.
func TestLargeRowsAreAppliedInSmallBatches(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	id := seed(t, p.db, 1)[0]
	climb(t, p, Fill)
	const rows = 60
	for i := range rows {
		size := applyBytes / 10
		if i == rows/2 {
			size = applyBytes + 1
		}
		must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO outbox (event_id, topic, `key`, event, created_at) VALUES (?, 't', ?, ?, 1)",
				fmt.Sprint("large ", i), id.String(), strings.Repeat("x", size))
			return err
		}))
	}
	batches, most := 0, 0
	for {
		changes, err := pending(t.Context(), p.m.currentSnapshot().primary.DB, applyBatch)
		must(t, err)
		b, err := p.m.apply.readBatch(t.Context(), p.m.currentSnapshot().primary, changes)
		must(t, err)
		done, err := p.m.apply.applyBatch(t.Context())
		must(t, err)
		if len(done.seqs) == 0 {
			break
		}
		batches, most = batches+1, max(most, b.bytes)
		must(t, done.deleteChanges(t.Context()))
	}
	// A batch first reads firstRead rows of any size.
	if limit := firstRead*applyBytes/10 + 2*applyBytes; most > limit || batches < 2 {
		t.Errorf("%d batches, the largest of %d bytes, want %d at most", batches, most, limit)
	}
	v := p.m.currentSnapshot()
	if diff := cmp.Diff(dump(t, p.m, v.primary), dump(t, p.m, v.other)); diff != "" {
		t.Error("the sides differ")
	}
}

// finished returns an installation in phase 5, started on the new side.
func finished(t *testing.T, s *site) *process {
	t.Helper()
	p := s.mustStart(s.old)
	seed(t, p.db, 30)
	climb(t, p, WriteNew)
	must(t, p.m.Finish(t.Context()))
	p.stop(t)
	return s.mustStart(s.new)
}

// The old side is kept for the retention period, dropped on request, resumes after interruption,
// and refuses every start afterwards.
func TestDropOld(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair.from(t), pair.to(t))
			p := finished(t, s)
			defer func() { p.stop(t) }()
			before := dump(t, p.m, p.m.currentSnapshot().primary)
			near, other := p.m.currentSnapshot().primary, p.m.currentSnapshot().other
			manyVersions(t, near)
			manyVersions(t, other)
			if gates := dropRefused(t, p, false); !strings.Contains(gateNamed(gates, "kept").Detail, "kept until") {
				t.Errorf("refused for %+v", gates)
			}
			if n := rowsOf(t, p); n == 0 {
				t.Fatal("nothing to drop")
			}
			must(t, p.m.DropOld(t.Context(), true, 0))
			p.faults[s.old.at].Fail(sqldbtest.Commit, 4, nil) // in the middle
			for p.m.participant.runOnce(t.Context()) == nil {
				if rowsOf(t, p) == 0 {
					t.Fatal("nothing failed")
				}
			}
			p.stop(t)
			p = s.mustStart(s.new)
			must(t, p.m.DropOld(t.Context(), true, 0)) // again: harmless
			if err := p.m.DeleteBookkeeping(t.Context(), false); !drive.IsKind(err, drive.WrongState) {
				t.Fatalf("the move was forgotten in the middle: %v", err)
			}
			dropAll(t, p)
			status, err := p.m.Status(t.Context())
			must(t, err)
			if n := rowsOf(t, p); n != 0 || status.Old == nil || status.Old.State != "dropped" {
				t.Errorf("%d rows are left, and the old side is %+v", n, status.Old)
			}
			if diff := cmp.Diff(before, dump(t, p.m, p.m.currentSnapshot().primary)); diff != "" {
				t.Errorf("the new side has changed:\n%s", diff)
			}
			if n := versionsOf(t, p.m.currentSnapshot().other); n != 0 {
				t.Errorf("%d of its versions are left", n)
			}
			near = p.m.currentSnapshot().primary
			must(t, p.m.DeleteBookkeeping(t.Context(), false))
			if n := versionsOf(t, near); n != 0 {
				t.Errorf("%d versions are left", n)
			}
			if late, err := s.start(s.old); err == nil {
				late.stop(t)
				t.Error("a process started on the side that was dropped")
			}
		})
	}
}

// A lost old side that was never dropped does not keep the bookkeeping for ever.
func TestDropEarly(t *testing.T) {
	t.Parallel()
	p := finished(t, newSite(t, onSQLite(t), onSQLite(t)))
	defer p.stop(t)
	must(t, p.m.DropOld(t.Context(), true, 0))
	if err := p.m.DeleteBookkeeping(t.Context(), false); !drive.IsKind(err, drive.WrongState) {
		t.Fatalf("it was forgotten in the middle: %v", err)
	}
	must(t, p.m.DeleteBookkeeping(t.Context(), true))
	if p.m.currentSnapshot() != nil {
		t.Error("it is still known")
	}
}

// manyVersions inserts more versions than one transaction deletes.
func manyVersions(t *testing.T, s *Side) {
	t.Helper()
	const at = 500
	for n := 0; n <= clearRows; n += at {
		must(t, s.Unchecked.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			var args []any
			for i := range at {
				args = append(args, "nodes", fmt.Sprintf("many-%d", n+i), 1, 0)
			}
			_, err := tx.Exec(ctx, "INSERT INTO migration_versions (tbl, k, version, deleted) VALUES "+strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?),", at), ","), args...)
			return err
		}))
	}
}

func versionsOf(t *testing.T, s *Side) (n int) {
	t.Helper()
	must(t, s.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM migration_versions").Scan(&n))
	return n
}

// B4: a jump of the database clock does not end the retention of the old side.
func TestOldSideIsKeptDespiteClockJump(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	s := newSite(t, pairs[0].from(t), pairs[0].to(t))
	var kept atomic.Int64 // Unix ms
	s.opt.RetentionClock = func() time.Time { return time.UnixMilli(kept.Load()) }
	p := finished(t, s)
	defer func() { p.stop(t) }()
	v, err := p.m.requireStep(t.Context())
	must(t, err)
	now, err := p.db.Now(t.Context())
	must(t, err)
	left := now.Add(-8 * day) // by the database clock, which was changed
	must(t, editNote(t.Context(), p.m.sides, v, noteOld, func(n *oldNotes) { n.LeftAt = left }))
	kept.Store(int64(left.Add(day)))
	if g := gateNamed(dropRefused(t, p, false), "kept"); g.OK || !strings.Contains(g.Detail, "is kept until") {
		t.Errorf("refused for %+v", g)
	}
	kept.Store(int64(left.Add(7 * day)))
	must(t, p.m.DropOld(t.Context(), false, 0))
	dropAll(t, p)
}

// dropAll runs until the old rows are dropped, in rounds of dropSlice that must each make progress.
func dropAll(t *testing.T, p *process) {
	t.Helper()
	for left := rowsOf(t, p); ; {
		work(t, p)
		if p.m.notes().old.Rows {
			return
		}
		now := rowsOf(t, p)
		if now >= left {
			t.Fatalf("%d rows were there, and %d still are", left, now)
		}
		left = now
	}
}

func rowsOf(t *testing.T, p *process) (n int) {
	t.Helper()
	return len(dump(t, p.m, p.m.currentSnapshot().other))
}

// dropRefused expects drop-old to be refused, and returns the gates.
func dropRefused(t *testing.T, p *process, early bool) []Gate {
	t.Helper()
	err := p.m.DropOld(t.Context(), early, 0)
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		t.Fatalf("drop-old: %v, want a refusal", err)
	}
	if p.m.State().Dropping {
		t.Fatal("refused, and it drops")
	}
	return r.Gates
}

// Each objection refuses dropping the old side, and nothing is deleted.
func TestDropOldIsRefusedStepByStep(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, s *site, p *process) *process{
		"the old settings": func(t *testing.T, s *site, p *process) *process {
			p.stop(t)
			return s.mustStart(s.old)
		},
		"another database in its place": func(t *testing.T, _ *site, p *process) *process {
			exec(t, p.m.currentSnapshot().other, "UPDATE migration_side SET marker = 'another'")
			must(t, p.m.participant.runOnce(t.Context()))
			return p
		},
		"another installation": func(t *testing.T, _ *site, p *process) *process {
			exec(t, p.m.currentSnapshot().other, "UPDATE meta SET value = 'that one' WHERE name = 'installation'")
			return p
		},
		"no evidence": func(t *testing.T, _ *site, p *process) *process {
			exec(t, p.m.currentSnapshot().primary, "UPDATE migration_checksums SET unequal = 1")
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			p := spoil(t, s, finished(t, s))
			defer p.stop(t)
			if g := gateNamed(dropRefused(t, p, true), "old-rows"); g.OK {
				t.Errorf("the gate says %+v", g)
			}
		})
	}
	t.Run("before phase 5", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, onSQLite(t), onSQLite(t))
		p := s.mustStart(s.old)
		defer p.stop(t)
		seed(t, p.db, 2)
		climb(t, p, WriteNew)
		if err := p.m.DropOld(t.Context(), true, 0); !drive.IsKind(err, drive.WrongState) {
			t.Errorf("drop-old in phase 4: %v", err)
		}
	})
	t.Run("an instance with the old settings", func(t *testing.T) { // requested, and waiting for that instance
		t.Parallel()
		s := newSite(t, onSQLite(t), onSQLite(t))
		f := &fleet{}
		s.member = func(*sqldb.DB) Member { return f.join() }
		first := s.mustStart(s.old)
		seed(t, first.db, 5)
		climb(t, first, WriteNew)
		must(t, first.m.Finish(t.Context()))
		p := s.mustStart(s.new)
		defer p.stop(t)
		must(t, p.m.participant.runOnce(t.Context()))
		must(t, p.m.DropOld(t.Context(), true, 0))
		must(t, first.m.participant.runOnce(t.Context()))
		work(t, p)
		if n := rowsOf(t, p); n == 0 {
			t.Error("rows were dropped under an instance with the old settings")
		}
		status, err := p.m.Status(t.Context())
		must(t, err)
		if g := gateNamed(status.Old.Gate, "instances"); g.OK || !strings.Contains(g.Detail, "old settings") {
			t.Errorf("the gate says %+v", g)
		}
		first.m.party.Member.(*seat).leave()
		first.stop(t)
		dropAll(t, p)
		if n := rowsOf(t, p); n != 0 {
			t.Errorf("it has left, and %d rows are there", n)
		}
	})
}

// The note that contents have moved stays while an instance needs it.
func TestDropWaitsForRestartedInstances(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	f := &fleet{}
	var last *seat
	s.member = func(*sqldb.DB) Member { last = f.join(); return last }
	p := s.mustStart(s.old)
	defer p.stop(t)
	_, err := p.m.Start(t.Context(), Request{ToBlobs: "elsewhere"})
	must(t, err)
	lame := s.mustStart(s.old)
	defer lame.stop(t)
	lame.m.party.Ready = func(at State) error {
		if at.Phase == NewOnly {
			return errors.New("it was started with the old settings")
		}
		return nil
	}
	for range 3 {
		must(t, lame.m.participant.runOnce(t.Context()))
		_, err := p.m.Advance(t.Context(), AnyPhase)
		must(t, err)
	}
	must(t, lame.m.participant.runOnce(t.Context()))
	must(t, p.m.Finish(t.Context()))
	must(t, lame.m.participant.runOnce(t.Context()))
	for _, one := range []*process{p, lame} {
		if err := one.m.DeleteBookkeeping(t.Context(), false); err == nil || !strings.Contains(err.Error(), "old settings") {
			t.Fatalf("dropped beside a process with the old settings: %v", err)
		}
	}
	last.leave()
	must(t, p.m.DeleteBookkeeping(t.Context(), false))
}
