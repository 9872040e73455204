// Package sqldbtest gives tests a real database of their own, and connectors that count calls and
// inject faults.
//
// The database is a SQLite file; with SMARTDRIVE_TEST_DB=mysql it is one of the MySQL server that
// SMARTDRIVE_TEST_MYSQL names. So every suite runs on both. With SMARTDRIVE_TEST_TWICE set each
// function of a transaction runs twice there, the first time for nothing, as after a deadlock.
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

	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/testkit/depth"
)

// Open opens a fresh database of the test's own and closes it at the end.
func Open(t testing.TB) *sqldb.DB {
	t.Helper()
	return OpenWith(t, sqldb.Options{})
}

// OpenWith is Open with options; see At for what an empty Path means.
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

// OpenAt opens the database at a place once more, as another process does. Whoever kills the
// process closes it; else the end of the test does.
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

// At returns opt with the place of a database of the test's own, which may be opened any number of
// times until the test ends: the file opt.Path (empty: a new one), or a database of the MySQL
// server in its stead, the same one for the same Path.
func At(t testing.TB, opt sqldb.Options) sqldb.Options {
	t.Helper()
	opt, giveBack := Borrow(t, opt)
	t.Cleanup(giveBack)
	return opt
}

// Borrow is At for who gives the database back before the test ends.
func Borrow(t testing.TB, opt sqldb.Options) (_ sqldb.Options, giveBack func()) {
	t.Helper()
	if opt.MySQL != "" {
		opt.Connector = recorded(opt.Connector)
		return opt, func() {}
	}
	if OnMySQL() {
		d := borrow(t, opt.Path)
		opt.Path, opt.MySQL = "", d.source
		opt.Twice = os.Getenv("SMARTDRIVE_TEST_TWICE") != "" && opt.Connector == nil // faults count the calls
		opt.Connector = recorded(opt.Connector)
		opt.Connections = cmp.Or(opt.Connections, 8)
		if opt.Log == nil { // it warns of a server that is not durable, which test servers need not be
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

// OnMySQL reports whether tests get MySQL databases.
func OnMySQL() bool { return os.Getenv("SMARTDRIVE_TEST_DB") == "mysql" }

// Fewer returns how often a test repeats itself that does so n times on a file: on MySQL, where
// each step waits for the server, a quarter of that. A deep run repeats everything.
func Fewer(n int) int {
	if OnMySQL() && !depth.IsDeep() {
		return max(n/4, 1)
	}
	return n
}

// Histories sets how many histories rapid draws for a test, unless -rapid.checks does: n, and a
// tenth of it on MySQL, where a history that takes 20 ms on a file takes a second. TestMain calls
// it after flag.Parse.
func Histories(n int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if OnMySQL() {
		n = max(n/10, 1)
	}
	if !given {
		_ = flag.Set("rapid.checks", strconv.Itoa(n))
	}
}

// SQLiteOnly skips a test that is about the database file itself, where tests get MySQL databases.
func SQLiteOnly(t testing.TB, why string) {
	t.Helper()
	if OnMySQL() {
		t.Skip("only with SQLite: " + why)
	}
}

// MySQLOnly skips a test that is about the MySQL server, where tests get files.
func MySQLOnly(t testing.TB) {
	t.Helper()
	if !OnMySQL() {
		t.Skip("SMARTDRIVE_TEST_DB is not mysql")
	}
}
