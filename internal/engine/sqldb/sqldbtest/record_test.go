package sqldbtest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// Statements of the program are recorded once per process; those of tests are not.
func TestStatementsOfTheProgramAreRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	older := filepath.Join(dir, sqldbtest.RecordOf(here(t), sqldbtest.OnMySQL())+".1.jsonl")
	if err := os.WriteFile(older, []byte("of an older build"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // two processes of one build
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAsk$") //nolint:gosec // this test
		cmd.Env = append(os.Environ(), sqldbtest.StatementsVariable+"="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 || files[0] == older {
		t.Fatalf("recorded in %v, %v; want one file of this build", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{
		`"from":"domain/quota.Ledger.Get"`: 2, // one line each
		account.String():                   2,
		"FROM ledgers":                     2,
		"FROM accounts":                    0,
	} {
		if n := strings.Count(string(text), what); n != want {
			t.Errorf("%s is there %d times, want %d:\n%s", what, n, want, text)
		}
	}
}

var account = drive.AccountID{15: 1}

// TestAsk checks the statements that the other test has recorded.
func TestAsk(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for range 2 {
			if _, err := (quota.Ledger{}).Get(ctx, tx, account); !drive.IsKind(err, drive.NotFound) {
				t.Errorf("the ledger of nobody: %v", err)
			}
		}
		var n int
		return tx.QueryRow(ctx, "SELECT COUNT(*) FROM accounts").Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNormal(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"SELECT a\n\t\tFROM b  WHERE c = ?":                "SELECT a FROM b WHERE c = ?",
		"SELECT a FROM b WHERE c IN (?,?,?,?,?) AND d = ?": "SELECT a FROM b WHERE c IN (?, ?) AND d = ?",
		"SELECT a FROM b WHERE c IN (?, ?, ?, ?) LIMIT ?":  "SELECT a FROM b WHERE c IN (?, ?) LIMIT ?",
		"INSERT INTO b (c, d, e) VALUES (?,?,?),(?,?,?)":   "INSERT INTO b (c, d, e) VALUES (?, ?),(?, ?)",
	} {
		if got := sqldbtest.Normal(query); got != want {
			t.Errorf("%q is %q, want %q", query, got, want)
		}
	}
}

func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
