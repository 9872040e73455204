package app

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// The metrics that are counted in the database are right. test/plans records their statements.
func TestSamplesAreCounted(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, invariant := range []string{"T3", "T3", "Q1"} {
			if _, err := tx.Exec(ctx, `INSERT INTO findings (found_at, seen_at, invariant, subject, expected, found, nodes, repaired)
				VALUES (0, 0, ?, '', '', '', '', 1)`, invariant); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]map[string]int64{
		countCorrections: {"T3": 2, "Q1": 1},
		countUploads:     {},
		countExports:     {},
		countBundles:     {},
		countDead:        {"all": 0},
	} {
		got, err := counted(t.Context(), db, query)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v; want %v", query, got, err, want)
		}
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%s: %s is %d, want %d", query, name, got[name], n)
			}
		}
	}
}
