// Package sqldbtest gives every test a real database of its own, and connectors that count calls
// and inject faults.
//
// The database is a SQLite file; with SMARTDRIVE_TEST_DB=mysql it is on the MySQL server named by
// SMARTDRIVE_TEST_MYSQL. Every suite can run on both. With SMARTDRIVE_TEST_TWICE set, each function
// of a MySQL transaction runs twice and the first run is rolled back, as after a deadlock.
package sqldbtest

import (
	"cmp"
	"database/sql/driver"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
)

// Open opens a new empty database for the test. The end of the test closes it.
func Open(t testing.TB) *sqldb.DB {
	t.Helper()
	return OpenWith(t, sqldb.Options{})
}

// OpenWith opens a database for the test with options; the end of the test closes it. At explains
// an empty Path.
func OpenWith(t testing.TB, opt sqldb.Options) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), At(t, opt))
	if err != nil {
		t.Fatalf("open the database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return db
}

// OpenAt opens the database described by at once more, as another process would. The end of the
// test closes it; a test that simulates the death of the process closes it earlier.
func OpenAt(t testing.TB, at sqldb.Options, connector func(source string) (driver.Connector, error)) *sqldb.DB {
	t.Helper()
	at.Connector, at.Log = recorded(connector), slog.New(slog.DiscardHandler)
	db, err := sqldb.Open(t.Context(), at)
	if err != nil {
		t.Fatalf("open the database: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a killed one is closed by its test
	return db
}

// At returns opt with the location of a database for the test, which can be opened several times
// until the test ends: the file opt.Path (a new one if empty), or on MySQL a database that stands
// for Path.
func At(t testing.TB, opt sqldb.Options) sqldb.Options {
	t.Helper()
	opt, giveBack := Borrow(t, opt)
	t.Cleanup(giveBack)
	return opt
}

// Borrow returns opt with the location of a database for the test: the file opt.Path (a new one if
// empty), or on MySQL a database that stands for Path. The caller must call giveBack when the
// database is no longer used.
func Borrow(t testing.TB, opt sqldb.Options) (_ sqldb.Options, giveBack func()) {
	t.Helper()
	if opt.MySQL != "" {
		opt.Connector = recorded(opt.Connector)
		return opt, func() {}
	}
	if OnMySQL() {
		d := borrow(t, opt.Path)
		opt.Path, opt.MySQL = "", d.source
		opt.RunTwice = os.Getenv("SMARTDRIVE_TEST_TWICE") != "" && opt.Connector == nil // injected faults count calls
		opt.Connector = recorded(opt.Connector)
		opt.Connections = cmp.Or(opt.Connections, 8)
		if opt.Log == nil { // it would warn that the test server is not durable
			opt.Log = slog.New(slog.DiscardHandler)
		}
		return opt, d.giveBack
	}
	opt.Connector = recorded(opt.Connector)
	if opt.Path == "" {
		opt.Path = filepath.Join(t.TempDir(), "smartdrive.db")
	}
	if err := prepare(opt.Path); err != nil {
		t.Fatalf("put a database at %s: %v", opt.Path, err)
	}
	return opt, func() {}
}

// OnMySQL reports whether tests use MySQL databases.
func OnMySQL() bool { return os.Getenv("SMARTDRIVE_TEST_DB") == "mysql" }

// Repetitions returns the number of repetitions for a test that repeats n times on a file: a
// quarter on MySQL, where each step takes longer, but all in a deep run.
func Repetitions(n int) int {
	if OnMySQL() && !depth.IsDeep() {
		return max(n/4, 1)
	}
	return n
}

// SetRapidChecks sets the number of random sequences per rapid test to n, or a tenth on MySQL,
// where a sequence takes a second instead of 20 ms. The flag -rapid.checks overrides it. TestMain
// must call it after flag.Parse.
func SetRapidChecks(n int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if OnMySQL() {
		n = max(n/10, 1)
	}
	if !given {
		_ = flag.Set("rapid.checks", strconv.Itoa(n))
	}
}

// SQLiteOnly skips a test of the database file when tests use MySQL.
func SQLiteOnly(t testing.TB, why string) {
	t.Helper()
	if OnMySQL() {
		t.Skip("only with SQLite: " + why)
	}
}

// MySQLOnly skips a test of the MySQL server when tests use files.
func MySQLOnly(t testing.TB) {
	t.Helper()
	if !OnMySQL() {
		t.Skip("SMARTDRIVE_TEST_DB is not mysql")
	}
}
