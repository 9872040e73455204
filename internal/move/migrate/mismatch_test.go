package migrate

import (
	"context"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// Some differing rows of a comparison are stored, and all are counted, also by a process that
// resumes it.
func TestManyRowsDiffer(t *testing.T) {
	t.Parallel()
	eachOld(t, func(t *testing.T, _ *site, p *process) {
		climb(t, p, DualWrite)
		for i := range 10 {
			changeAll(t, p.db, accountsOf(t, p), i)
		}
		must(t, p.m.apply.applyPending(t.Context()))
		must(t, p.m.Verify(t.Context()))
		exec(t, p.m.currentSnapshot().other, "UPDATE tombstones SET deleted_at = 77")                    // there are 30
		exec(t, p.m.currentSnapshot().primary, "UPDATE migration_checksums SET unequal = ?", maxNoted-2) // from an earlier process
		work(t, p)
		c, err := p.m.lastChecksum(t.Context(), p.m.currentSnapshot())
		must(t, err)
		noted, err := p.m.Mismatches(t.Context(), maxNoted)
		must(t, err)
		if c.state != "done" || c.unequal != maxNoted-2+30 || len(noted) != 2 {
			t.Errorf("30 more rows differ, and %d of them are noted: %+v", len(noted), c)
		}
		refused(t, p, "checksum")
	})
}

// A differing read is stored once, again after it was explained, and only up to a limit.
func TestDifferingReadIsStoredOnce(t *testing.T) {
	t.Parallel()
	eachOld(t, func(t *testing.T, _ *site, p *process) {
		climb(t, p, DualWrite)
		differs := func(query string, want int) {
			t.Helper()
			must(t, p.m.noteMismatch(t.Context(), p.m.currentSnapshot(), Mismatch{Source: "read", Subject: query, Ours: "1", Theirs: "2"}))
			if n, err := p.m.countMismatches(t.Context(), p.m.currentSnapshot()); err != nil || n != int64(want) {
				t.Fatalf("%d mismatches, want %d: %v", n, want, err)
			}
		}
		differs("SELECT 1", 1)
		differs("SELECT 1", 1)
		differs("SELECT 2", 2)
		all, err := p.m.Mismatches(t.Context(), 10)
		must(t, err)
		must(t, p.m.Explain(t.Context(), all[1].ID, Explanation{"ann", "a sum"}))
		differs("SELECT 2", 1)
		differs("SELECT 1", 2)
		must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for i := range maxNoted - 2 {
				_, err := tx.Exec(ctx, "INSERT INTO migration_mismatches (migration, source, subject, ours, theirs, found_at) VALUES (?, 'read', ?, '', '', 1)",
					p.m.State().ID, fmt.Sprint("SELECT ", 10+i))
				if err != nil {
					return err
				}
			}
			return nil
		}))
		differs("SELECT 3", maxNoted)
	})
}
