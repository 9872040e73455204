package migrate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

// Named accounts read from the new side at any percentage, in each process that has acknowledged
// the epoch, and no others do. A new list replaces the previous one.
func TestNamedAccountsReadNew(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	ids := seed(t, p.db, 3)
	climb(t, p, ReadNew)
	for _, id := range ids { // to show which side answers
		exec(t, p.m.currentSnapshot().other, "UPDATE ledgers SET finished = 7 WHERE account_id = ?", id)
	}
	readNew := func() (who []int) {
		t.Helper()
		for i, id := range ids {
			var finished int64
			must(t, p.db.For(id).QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", id).Scan(&finished))
			if finished == 7 {
				who = append(who, i)
			}
		}
		return who
	}
	for _, c := range []struct {
		percent int
		named   []drive.AccountID
		want    []int
	}{
		{0, nil, nil},
		{0, ids[1:3], []int{1, 2}},
		{0, nil, []int{1, 2}}, // unchanged
		{0, ids[:1], []int{0}},
		{100, []drive.AccountID{}, []int{0, 1, 2}},
		{0, []drive.AccountID{}, nil},
	} {
		must(t, p.m.Percent(t.Context(), c.percent, c.named))
		if diff := cmp.Diff(c.want, readNew()); diff != "" {
			t.Errorf("%d %% and %d named: %s", c.percent, len(c.named), diff)
		}
	}
	if err := p.m.Percent(t.Context(), 0, make([]drive.AccountID, maxAccounts+1)); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("too many: %v", err)
	}
}
