package migrate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// tableCopy is a copy of some tables, for a later failover to them.
type tableCopy map[string][]row

// copyTables copies tables of the secondary.
func copyTables(t *testing.T, p *process, tables ...string) tableCopy {
	t.Helper()
	return copyOf(t, p.m.currentSnapshot().other, tables...)
}

func copyOf(t *testing.T, side *Side, tables ...string) tableCopy {
	t.Helper()
	s := tableCopy{}
	for _, name := range append(tables, "migration_versions", "migration_notes") {
		columns := map[string]string{
			"outbox": "id, event_id, topic, `key`, event, created_at", "migration_versions": "tbl, k, version, deleted", "migration_notes": "name, value",
			"migration_changes": "seq, tbl, k, account", "sqlite_sequence": "name, seq", "tombstones": "account_id, seq, node_id, deleted_at",
		}[name]
		rows, err := side.DB.Query(t.Context(), "SELECT "+columns+" FROM "+name)
		all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error {
			*r = make(row, strings.Count(columns, ",")+1)
			into := make([]any, len(*r))
			for i := range into {
				into[i] = &(*r)[i]
			}
			return scan(into...)
		})
		must(t, err)
		s[name+" ("+columns+")"] = all
	}
	return s
}

// failOver restores a side, its list of changes last, because on a primary the triggers record the
// other writes.
func (s tableCopy) failOver(t *testing.T, side *Side) {
	t.Helper()
	for _, into := range slices.Backward(slices.Sorted(maps.Keys(s))) {
		rows := s[into]
		name, _, _ := strings.Cut(into, " ")
		exec(t, side, "DELETE FROM "+name)
		for _, r := range rows {
			exec(t, side, "INSERT INTO "+into+" VALUES ("+sqldb.Placeholders(len(r))+")", r...)
		}
	}
}

func lateEvent(t *testing.T, p *process, id string) {
	t.Helper()
	must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO outbox (event_id, topic, `key`, event, created_at) VALUES (?, 't', 'k', '{}', 1)", id)
		return err
	}))
	must(t, p.m.apply.applyPending(t.Context()))
	must(t, p.m.apply.applyPending(t.Context())) // the changes of the first are deleted from the list
}

// The secondary's server fails over to a replica that lacks its last acknowledged commit, after an
// equal comparison. It cannot become primary, is not read, and receives no changes, which would
// hide the loss. When the server with the commits is back, everything continues.
func TestSecondaryThatLostCommitsIsRefused(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"at once": 0, "after as many commits have come": 1, "after more have come": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			p := s.mustStart(s.old)
			defer func() { p.stop(t) }()
			accounts := seed(t, p.db, 5)
			climb(t, p, ReadNew)
			lateEvent(t, p, "before")
			must(t, p.m.Percent(t.Context(), 100, nil))
			v := p.m.currentSnapshot()
			old := copyTables(t, p, "outbox")
			lateEvent(t, p, "lost")
			whole := copyTables(t, p, "outbox")
			old.failOver(t, v.other)
			for range after {
				must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // acknowledged, and pending
					_, err := tx.Exec(ctx, "UPDATE ledgers SET version = version + 1")
					return err
				}))
			}
			if err := p.m.apply.applyPending(t.Context()); !errors.Is(err, errLost) {
				t.Errorf("it is brought more: %v", err)
			}
			refused(t, p, "acknowledged")
			if from, _, err := p.m.traffic.Reader(t.Context(), accounts[0]); err != nil || from != v.primary.DB {
				t.Errorf("it is read from, %v", err)
			}
			whole.failOver(t, v.other)
			work(t, p)
			if at, err := p.m.Advance(t.Context(), AnyPhase); err != nil || at != WriteNew {
				t.Errorf("phase %d, %v", at, err)
			}
		})
	}
}

// The old side loses a commit in phase 4: it cannot become the primary again.
func TestRollbackToLossySideIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer func() { p.stop(t) }()
	seed(t, p.db, 5)
	climb(t, p, WriteNew)
	old := copyTables(t, p, "outbox")
	lateEvent(t, p, "lost")
	whole := copyTables(t, p, "outbox")
	old.failOver(t, p.m.currentSnapshot().other)
	if at, err := p.m.Rollback(t.Context(), AnyPhase); err == nil || !strings.Contains(err.Error(), "lost changes") {
		t.Errorf("back to phase %d, %v", at, err)
	}
	whole.failOver(t, p.m.currentSnapshot().other)
	if at, err := p.m.Rollback(t.Context(), AnyPhase); err != nil || at != ReadNew {
		t.Errorf("back to phase %d, %v", at, err)
	}
}

// The primary's server fails over to a replica that lacks a commit which the secondary has applied,
// after an equal comparison. The loss is detected despite later writes, until the server with the
// commit is back.
func TestPrimaryThatLostCommitsIsRefused(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"at once": 0, "after as many changes have come": 1, "after more have come": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			p := s.mustStart(s.old)
			defer func() { p.stop(t) }()
			accounts := seed(t, p.db, 5)
			climb(t, p, ReadNew)
			must(t, p.m.Percent(t.Context(), 100, nil))
			buried(t, p, accounts[0], 1)
			v := p.m.currentSnapshot()
			replica := copyPrimary(t, p)
			buried(t, p, accounts[0], 2)
			whole := copyPrimary(t, p)
			replica.failOver(t, v.primary)
			for i := range after { // acknowledged, with the numbers of the lost changes
				_ = bury(t, p, accounts[1], 10+i)
			}
			if err := p.m.apply.applyPending(t.Context()); !errors.Is(err, errRewound) {
				t.Errorf("more is brought: %v", err)
			}
			refused(t, p, "acknowledged")
			if from, _, err := p.m.traffic.Reader(t.Context(), accounts[2]); err != nil || from != v.primary.DB {
				t.Errorf("the other side is read from, %v", err)
			}
			p.stop(t)
			p = s.mustStart(s.old)
			work(t, p)
			refused(t, p, "acknowledged")
			whole.failOver(t, p.m.currentSnapshot().primary)
			work(t, p)
			if at, err := p.m.Advance(t.Context(), AnyPhase); err != nil || at != WriteNew {
				t.Errorf("phase %d, %v", at, err)
			}
		})
	}
}

// The primary writes a lost change again to the same row under the same number: the other side gets
// the current row.
func TestRepeatedChangeNumberIsApplied(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer func() { p.stop(t) }()
	accounts := seed(t, p.db, 5)
	climb(t, p, ReadNew)
	buried(t, p, accounts[0], 1)
	replica := copyPrimary(t, p)
	buried(t, p, accounts[0], 2)
	replica.failOver(t, p.m.currentSnapshot().primary)
	node := bury(t, p, accounts[0], 2)
	work(t, p)
	if at, err := p.m.Advance(t.Context(), AnyPhase); err != nil || at != WriteNew {
		t.Fatalf("phase %d, %v", at, err)
	}
	var truth drive.NodeID
	must(t, p.db.QueryRow(t.Context(), "SELECT node_id FROM tombstones WHERE account_id = ? AND seq = 2", accounts[0]).Scan(&truth))
	if truth != node {
		t.Errorf("the truth is what was lost: %s, and %s was answered", truth, node)
	}
}

// A change that was applied but not acknowledged, because the process crashed, is not reported as
// lost.
func TestUndeletedChangesAreNotLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer func() { p.stop(t) }()
	accounts := seed(t, p.db, 5)
	climb(t, p, ReadNew)
	for i := range 3 {
		_ = bury(t, p, accounts[i], 1)
		_, err := p.m.apply.applyBatch(t.Context())
		must(t, err)
		must(t, p.m.apply.checkReceiptsNow(t.Context(), p.m.currentSnapshot()))
	}
	first, err := p.m.apply.applyBatch(t.Context())
	must(t, err)
	_ = bury(t, p, accounts[3], 1)
	second, err := p.m.apply.applyBatch(t.Context())
	must(t, err)
	must(t, first.deleteChanges(t.Context())) // late: the second has applied its changes, too
	must(t, p.m.apply.checkReceiptsNow(t.Context(), p.m.currentSnapshot()))
	must(t, second.deleteChanges(t.Context()))
	must(t, p.m.apply.checkReceiptsNow(t.Context(), p.m.currentSnapshot()))
	if left, err := countChanges(t.Context(), p.m.currentSnapshot().primary.DB); err != nil || left != 0 {
		t.Errorf("%d changes are left, %v", left, err)
	}
	if at, err := p.m.Advance(t.Context(), AnyPhase); err != nil || at != WriteNew {
		t.Fatalf("phase %d, %v", at, err)
	}
}

func copyPrimary(t *testing.T, p *process) tableCopy {
	t.Helper()
	return copyOf(t, p.m.currentSnapshot().primary, "tombstones", "migration_changes", "sqlite_sequence")
}

// bury writes a tombstone without waiting for the other side.
func bury(t *testing.T, p *process, account drive.AccountID, seq int) drive.NodeID {
	t.Helper()
	node := drive.NewID[drive.NodeID]()
	must(t, p.m.currentSnapshot().primary.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "REPLACE INTO tombstones (account_id, seq, node_id, deleted_at) VALUES (?, ?, ?, 1)", account, seq, node)
		return err
	}))
	return node
}

// buried is bury, with the change applied and deleted.
func buried(t *testing.T, p *process, account drive.AccountID, seq int) {
	t.Helper()
	_ = bury(t, p, account, seq)
	must(t, p.m.apply.applyPending(t.Context()))
	must(t, p.m.apply.applyPending(t.Context()))
}

// A process applies changes; before it acknowledges them, the secondary loses them and another
// process applies others. No lost change is deleted.
func TestLateAcknowledgementDeletesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer func() { p.stop(t) }()
	seed(t, p.db, 5)
	climb(t, p, DualWrite)
	v := p.m.currentSnapshot()
	event := func(id string) {
		exec(t, v.primary, "INSERT INTO migration_changes (tbl, k, account) VALUES ('outbox', ?, '')", id)
	}
	old := copyTables(t, p, "outbox")
	event("7001")
	late, err := p.m.apply.applyBatch(t.Context())
	must(t, err)
	old.failOver(t, v.other)
	event("7002")
	other, err := p.m.apply.applyBatch(t.Context()) // applies both
	must(t, err)
	event("7003")
	must(t, other.deleteChanges(t.Context()))
	before, err := countChanges(t.Context(), v.primary.DB)
	must(t, err)
	must(t, late.deleteChanges(t.Context()))
	if after, err := countChanges(t.Context(), v.primary.DB); err != nil || after != before {
		t.Errorf("%d changes became %d, %v", before, after, err)
	}
	must(t, p.m.apply.applyPending(t.Context()))
	must(t, p.m.apply.applyPending(t.Context()))
	if left, err := countChanges(t.Context(), v.primary.DB); err != nil || left != 0 {
		t.Errorf("%d changes are left, %v", left, err)
	}
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	a, b := receipt{Term: 1, Count: 5, Name: "a"}, receipt{Term: 1, Count: 5, Name: "b"}
	for _, c := range []struct {
		has, told receipt
		want      bool
	}{
		{a, receipt{}, true},
		{a, a, true},
		{a.next(), a, true},
		{a, b, false},
		{a, a.next(), false},
		{receipt{Term: 1}, a, false},
		{receipt{}.inTerm(2), a.inTerm(2), true},
	} {
		if got := c.has.covers(c.told); got != c.want {
			t.Errorf("%+v holds %+v: %t", c.has, c.told, got)
		}
	}
}

// Two processes store the first receipt concurrently: the later count stays. Otherwise the primary
// would seem to have lost commits.
func TestConcurrentFirstAcknowledgements(t *testing.T) {
	t.Parallel()
	for _, on := range []struct {
		name string
		at   func(testing.TB) *place
	}{{"SQLite", onSQLite}, {"MySQL", onMySQL}} {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, on.at(t), onSQLite(t))
			p := s.mustStart(s.old)
			defer p.stop(t)
			must(t, p.m.openHome(t.Context()))
			for range 50 {
				exec(t, &p.m.home, "DELETE FROM migration_notes")
				late := receipt{Term: 2, Count: 2, Name: "late"}
				var told sync.WaitGroup
				for _, r := range []receipt{{Term: 2, Count: 1, Name: "early"}, late} {
					told.Go(func() {
						if err := (&appliedBatch{from: &p.m.home, seqs: []any{r.Count}, receipt: r}).deleteChanges(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				told.Wait()
				if got, err := storedReceipt(t.Context(), p.db, 2); err != nil || got != late {
					t.Fatalf("it was told of %+v, %v", got, err)
				}
			}
		})
	}
}
