package plans

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

const root = "../.."

// statement is a recorded statement and the function that executed it.
type statement = sqldbtest.Statement

// recordedStatements returns the statements that the packages' tests have executed, without inserts
// of rows and transactions, which cannot read much. It skips the test unless the tests of every
// package that opens a database have run.
func recordedStatements(t *testing.T, dialect sqldb.Dialect) []statement {
	t.Helper()
	dir := os.Getenv(sqldbtest.StatementsVariable)
	if dir == "" {
		t.Skip("no statements were recorded: make test does, with " + sqldbtest.StatementsVariable)
	}
	all := map[string]statement{}
	packages, recorded := packagesWithDatabase(t), 0
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join(dir, sqldbtest.RecordOf(pkg, dialect == sqldb.MySQL)+".*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 {
			recorded++
		} else if dialect == sqldb.SQLite {
			t.Skipf("only some packages were run: nothing is recorded of %s", pkg)
		}
		for _, name := range files {
			if err := readStatements(name, all); err != nil {
				t.Fatal(err)
			}
		}
	}
	if recorded < len(packages)*2/3 { // some have tests that are about the file of SQLite only
		t.Skipf("only some packages were run: %d of %d on %s", recorded, len(packages), dialect)
	}
	var list []statement
	for _, s := range all {
		if s.Dialect == dialect.String() && reads(s.Text) {
			list = append(list, s)
		}
	}
	if len(list) < 300 {
		t.Fatalf("only %d statements were recorded", len(list))
	}
	slices.SortFunc(list, func(a, b statement) int { return strings.Compare(a.From+a.Text, b.From+b.Text) })
	return list
}

// reads reports whether an engine looks for rows to do it.
func reads(text string) bool {
	word, _, _ := strings.Cut(strings.ToUpper(text), " ")
	switch word {
	case "SELECT", "WITH", "UPDATE", "DELETE":
		return true
	case "INSERT", "REPLACE":
		return strings.Contains(text, "SELECT ")
	}
	return false
}

// readStatements adds the statements of a file to all, by dialect and normal form.
func readStatements(name string, all map[string]statement) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s statement
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all[s.Dialect+" "+sqldbtest.Normal(s.Text)] = s
	}
	return lines.Err()
}

// packagesWithDatabase returns the directories whose tests use sqldbtest, directly or through
// uploadtest.
func packagesWithDatabase(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	inside := filepath.Join(root, "internal")
	err := filepath.WalkDir(inside, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(`"example.org/smartdrive/internal/engine/sqldb/sqldbtest"`)) || bytes.Contains(text, []byte(`"example.org/smartdrive/internal/usecase/upload/uploadtest"`)) {
			found[filepath.Dir(path)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for dir := range found {
		if rel, err := filepath.Rel(inside, dir); err != nil {
			t.Fatal(err)
		} else if !strings.HasPrefix(rel, "sqldb") { // they test the database, and ask for nothing
			list = append(list, filepath.Join("/internal", rel))
		}
	}
	if len(list) < 15 {
		t.Fatalf("%d packages with a database: something is not read", len(list))
	}
	slices.Sort(list)
	return list
}
