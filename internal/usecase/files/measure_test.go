package files_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/files"
)

// TestMeasureHousekeeping measures housekeeping with nothing due, and with 1,000 trashes due, among
// many accounts that each have a recently trashed node and a file with ten versions.
// SMARTDRIVE_MEASURE is the number of accounts. It asserts nothing.
func TestMeasureHousekeeping(t *testing.T) {
	accounts, err := strconv.Atoi(os.Getenv("SMARTDRIVE_MEASURE"))
	if err != nil {
		t.Skip("SMARTDRIVE_MEASURE is no number of accounts")
	}
	db := sqldbtest.Open(t)
	d := newFixtureAt(t, db, nil, files.Options{})
	young := d.now.UnixMilli()
	begun := time.Now()
	const chunk = 20_000
	for first := 0; first < accounts; first += chunk {
		insertAccounts(t, db, first, min(first+chunk, accounts), young)
	}
	t.Logf("%d accounts made in %s", accounts, time.Since(begun).Round(time.Second))

	begun = time.Now()
	steps := 0
	for more := true; more; steps++ {
		if more, err = d.tree.Survey(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("survey: %d steps in %s", steps, time.Since(begun).Round(time.Millisecond))
	purge := func(what string) {
		begun := time.Now()
		out, err := d.expiry.Purge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s, %+v", what, time.Since(begun).Round(10*time.Microsecond), out)
	}
	purge("nothing is due")
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE nodes SET trashed_at = trashed_at - 172800000 WHERE trashed_at > 0 AND id < ?", generatedID(6, 1000)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE due SET since = since - 172800000 WHERE kind = ? AND id < ?", tree.DueTrash, generatedID(1, 1000))
		return err
	})
	purge("1,000 trashes are due")
	purge("nothing is due again")
}

// generatedID returns the id of the nth row of a kind.
func generatedID(kind, n int) string { return fmt.Sprintf("00000000-000%d-7000-8000-%012x", kind, n) }

// insertAccounts inserts the accounts numbered from first to before.
func insertAccounts(t *testing.T, db *sqldb.DB, first, before int, at int64) {
	t.Helper()
	id := func(kind int, n string) string {
		if db.Dialect() == sqldb.MySQL {
			return fmt.Sprintf("CONCAT('00000000-000%d-7000-8000-', LPAD(LOWER(HEX(%s)), 12, '0'))", kind, n)
		}
		return fmt.Sprintf("printf('00000000-000%d-7000-8000-%%012x', %s)", kind, n)
	}
	numbers := fmt.Sprintf("(WITH RECURSIVE s(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n + 1 < %d) SELECT n FROM s) AS s", first, before)
	ten := "(SELECT 0 AS v UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) AS ten"
	node := `INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq, created_at, updated_at, trashed_at) SELECT `
	for _, query := range []string{
		fmt.Sprintf("INSERT INTO accounts (id, created_at) SELECT %s, %d FROM %s", id(1, "n"), at, numbers),
		fmt.Sprintf("INSERT INTO ledgers (account_id) SELECT %s FROM %s", id(1, "n"), numbers),
		fmt.Sprintf("INSERT INTO trees (account_id, root_id, seq, node_count) SELECT %s, %s, 3, 2 FROM %s", id(1, "n"), id(2, "n"), numbers),
		node + fmt.Sprintf("%s, %s, NULL, '', '', '', 'folder', NULL, 0, 1, 1, 0, 0, 0 FROM %s", id(2, "n"), id(1, "n"), numbers),
		node + fmt.Sprintf("%s, %s, %s, 'f', 'f', 'f', 'file', %s, 0, 1, 2, 0, 0, 0 FROM %s", id(4, "n"), id(1, "n"), id(2, "n"), id(5, "n * 10 + 9"), numbers),
		node + fmt.Sprintf("%s, %s, %s, 'g', 'g', 'g2', 'folder', NULL, 0, 1, 3, 0, 0, %d FROM %s", id(6, "n"), id(1, "n"), id(2, "n"), at, numbers),
		fmt.Sprintf(`INSERT INTO blobs (id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts)
			SELECT %s, %s, 'blake3', %s, 1, 0, 0, 10, 0, 0, '' FROM %s`, id(7, "n"), id(7, "n"), id(7, "n"), numbers),
		fmt.Sprintf(`INSERT INTO versions (id, node_id, account_id, blob_id, size, mtime, mime, created_at, created_by)
			SELECT %s, %s, %s, %s, 1, 0, 'text/plain', %d + v, '00000000-0000-7000-8000-000000000000' FROM %s, %s`,
			id(5, "n * 10 + v"), id(4, "n"), id(1, "n"), id(7, "n"), at, numbers, ten),
	} {
		if err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, query)
			return err
		}); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}
