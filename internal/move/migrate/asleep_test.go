package migrate

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A process that was silent for so long that others continued without it reads current data when it
// wakes up.
func TestSleepingProcessReadsNoStaleSide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		leave func(t *testing.T, p *process)
	}{
		{"to the last phase", func(t *testing.T, p *process) {
			to, err := p.m.Advance(t.Context(), ReadNew)
			if err != nil || to != WriteNew {
				t.Fatalf("advance: phase %d, %v", to, err)
			}
			verifyAgain(t, p)
			must(t, p.m.Finish(t.Context()))
		}},
		{"back to none", func(t *testing.T, p *process) {
			for phase := ReadNew; phase >= Fill; phase-- {
				_, err := p.m.Rollback(t.Context(), phase)
				must(t, err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, onSQLite(t), onSQLite(t))
			f := &fleet{}
			var last *seat
			s.member = func(*sqldb.DB) Member {
				last = f.join()
				return last
			}
			p := s.mustStart(s.old)
			defer p.stop(t)
			accounts := seed(t, p.db, 20) // half of them read from the new side
			climb(t, p, ReadNew)
			must(t, p.m.Percent(t.Context(), 50, nil))
			asleep := s.mustStart(s.old)
			defer asleep.stop(t)
			must(t, asleep.m.participant.runOnce(t.Context()))
			last.leave()

			test.leave(t, p)
			for _, id := range accounts {
				must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE ledgers SET finished = 77 WHERE account_id = ?", id)
					return err
				}))
			}
			before := *asleep.m.currentSnapshot()
			before.at = before.at.Add(-time.Minute)
			asleep.m.snapshot.Store(&before)
			for _, id := range accounts {
				if got := balance(t, asleep.db, id); got != 77 {
					t.Errorf("account %s: %d, not what was written meanwhile", id, got)
				}
			}
		})
	}
}

func balance(t *testing.T, db *sqldb.DB, account drive.AccountID) (n int64) {
	t.Helper()
	must(t, db.For(account).QueryRow(t.Context(), "SELECT finished FROM ledgers WHERE account_id = ?", account).Scan(&n))
	return n
}
