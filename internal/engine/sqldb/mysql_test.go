package sqldb_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

func openSource(t *testing.T, source string) *sqldb.DB {
	t.Helper()
	return sqldbtest.OpenWith(t, sqldb.Options{MySQL: source, Connections: 4})
}

// TestEightStartersAtOnce starts eight processes at the same time on an empty database.
func TestEightStartersAtOnce(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	source, _ := sqldbtest.Empty(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			db, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: source, Connections: 1})
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestMigrationsResume: a process that dies during the migration may leave any number
// of tables, and goose's own table without its first row.
func TestMigrationsResume(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	source, admin := sqldbtest.Empty(t)
	name := source[strings.LastIndexByte(source, '/')+1:]
	openSource(t, source)
	for _, died := range []string{
		"DELETE FROM %s.goose_db_version", "DROP TABLE %s.goose_db_version", "DELETE FROM %s.goose_db_version WHERE version_id > 0",
	} {
		if _, err := admin.ExecContext(t.Context(), fmt.Sprintf(died, name)); err != nil {
			t.Fatal(err)
		}
		if err := openSource(t, source).Write(t.Context(), put(died, "1")); err != nil {
			t.Errorf("after %s: %v", died, err)
		}
	}
	if _, err := admin.ExecContext(t.Context(), "INSERT INTO "+name+".goose_db_version (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: source}); err == nil || !strings.Contains(err.Error(), "use a newer release") {
		t.Errorf("a database of a newer release: %v", err)
	}
}

// TestSchemaChangeGoesThroughChange: Change can read, write and refuse. It is not called for a new
// or an up-to-date database.
func TestSchemaChangeGoesThroughChange(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	source, admin := sqldbtest.Empty(t)
	name := source[strings.LastIndexByte(source, '/')+1:]
	asked, answer := 0, error(nil)
	open := func() error {
		db, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: source, OnSchemaChange: func(ctx context.Context, db *sqldb.DB, apply func() error) error {
			asked++
			if _, err := db.Now(ctx); err != nil {
				return err
			}
			if err := db.Write(ctx, put(fmt.Sprint("asked ", asked), "1")); err != nil || answer != nil {
				return errors.Join(err, answer)
			}
			return apply()
		}})
		if err == nil {
			err = errors.Join(db.CheckFormat(t.Context()), db.Close())
		}
		return err
	}
	for range 2 {
		if err := open(); err != nil || asked != 0 {
			t.Fatalf("asked %d times about a database that need not be changed: %v", asked, err)
		}
	}
	change := func(statement string) (version int64) {
		t.Helper()
		if _, err := admin.ExecContext(t.Context(), fmt.Sprintf(statement, name)); err != nil {
			t.Fatal(err)
		}
		if err := admin.QueryRowContext(t.Context(), "SELECT MAX(version_id) FROM "+name+".goose_db_version").Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	older := change("UPDATE %s.goose_db_version SET version_id = 119 WHERE version_id > 0")
	answer = drive.Fail(drive.Unavailable)
	if err := open(); !drive.IsKind(err, drive.Unavailable) || asked != 1 || change("DO '%s'") != older {
		t.Errorf("refused: %v; asked %d times", err, asked)
	}
	answer = nil
	if err := open(); err != nil || asked != 2 || change("DO '%s'") <= older {
		t.Errorf("allowed: %v; asked %d times", err, asked)
	}
	db := openSource(t, source)
	change("INSERT INTO %s.goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	if err := db.CheckFormat(t.Context()); err == nil || !strings.Contains(err.Error(), "use a newer release") {
		t.Errorf("changed by a newer release since it was opened: %v", err)
	}
}

func TestBothDialectsHaveTheSameColumns(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	my, lite := map[string][]string{}, map[string][]string{}
	type column struct{ table, name string }
	read := func(into map[string][]string, db *sqldb.DB, query string) {
		t.Helper()
		rows, err := db.Query(t.Context(), query)
		all, err := sqldb.Scan(rows, err, func(c *column, scan func(...any) error) error { return scan(&c.table, &c.name) })
		if err != nil || len(all) == 0 {
			t.Fatalf("%d columns, %v", len(all), err)
		}
		for _, c := range all {
			into[c.table] = append(into[c.table], c.name)
		}
		for _, names := range into {
			slices.Sort(names)
		}
	}
	read(my, sqldbtest.Open(t), `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name <> 'goose_db_version'`)
	file, err := sqldb.Open(t.Context(), sqldb.Options{Path: t.TempDir() + "/smartdrive.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read(lite, file, `SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version'`)
	if diff := cmp.Diff(lite, my); diff != "" {
		t.Errorf("the schemas differ (-SQLite +MySQL):\n%s", diff)
	}
}

// meet makes two transactions deadlock: each has changed its own row and then changes the other's.
func meet(t *testing.T, db *sqldb.DB, second func(ctx context.Context, tx *sqldb.Tx, key string) error) (errs [2]error, runs int) {
	t.Helper()
	for _, key := range []string{"0", "1"} {
		if err := db.Write(t.Context(), put(key, "")); err != nil {
			t.Fatal(err)
		}
	}
	var all, both sync.WaitGroup
	var mu sync.Mutex
	both.Add(2)
	for i := range errs {
		first := true
		all.Go(func() {
			errs[i] = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				mu.Lock()
				runs++
				mu.Unlock()
				if _, err := tx.Exec(ctx, "UPDATE meta SET value = CONCAT(value, ?) WHERE name = ?", i, fmt.Sprint(i)); err != nil {
					return err
				}
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				return second(ctx, tx, fmt.Sprint(1-i))
			})
		})
	}
	all.Wait()
	return errs, runs
}

func appendTo(ctx context.Context, tx *sqldb.Tx, key string) error {
	_, err := tx.Exec(ctx, "UPDATE meta SET value = CONCAT(value, 'x') WHERE name = ?", key)
	return err
}

func TestDeadlockRunsAgain(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	db := sqldbtest.Open(t)
	var mu sync.Mutex
	after := 0
	errs, runs := meet(t, db, func(ctx context.Context, tx *sqldb.Tx, key string) error {
		tx.AfterCommit(func() { mu.Lock(); defer mu.Unlock(); after++ })
		return appendTo(ctx, tx, key)
	})
	if errs[0] != nil || errs[1] != nil || runs < 3 || after != 2 || db.Stats().Reruns.Load() == 0 {
		t.Errorf("%v, %d runs, %d told of the commit", errs, runs, after)
	}
	for i := range 2 {
		if v, _ := get(t, db, fmt.Sprint(i)); len(v) != 2 {
			t.Errorf("row %d holds %q: each transaction counts once", i, v)
		}
	}
}

// TestOverlookedDeadlockCommitsNothing: the engine has rolled back before the function sees the
// deadlock. A function that ignores it must not commit the rest.
func TestOverlookedDeadlockCommitsNothing(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	db := sqldbtest.Open(t)
	errs, _ := meet(t, db, func(ctx context.Context, tx *sqldb.Tx, key string) error {
		_ = appendTo(ctx, tx, key)
		_, _ = tx.InsertNew(ctx, "INSERT INTO meta (name, value) VALUES (?, '')", "trace of "+key)
		return nil
	})
	for i, err := range errs {
		own, _ := get(t, db, fmt.Sprint(i))
		_, trace := get(t, db, "trace of "+fmt.Sprint(1-i))
		if whole := strings.Contains(own, fmt.Sprint(i)) && trace; err != nil || !whole {
			t.Errorf("transaction %d: error %v, and not all of it is there", i, err)
		}
	}
}

func TestEndlessConflictIsUnavailable(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	want := 1 // SQLite runs transactions one after the other: a rerun would find the same
	if db.Dialect() == sqldb.MySQL {
		want = 4
	}
	runs := 0
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		runs++
		if err := put("a", "1")(ctx, tx); err != nil {
			return err
		}
		return sqldb.Rerun(errors.New("lost"))
	})
	if _, there := get(t, db, "a"); !drive.IsKind(err, drive.Unavailable) || runs != want || there {
		t.Errorf("%v after %d runs, a row is there: %v", err, runs, there)
	}
}

// TestInsertNewWaitsForTheFirst: of two inserts of one key the second waits for the first and
// returns whether its own row is new.
func TestInsertNewWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	for name, end := range map[string]error{"committed": nil, "rolled back": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := sqldbtest.Open(t)
			inserted, goOn := make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() {
				_ = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					if err := put("a", "1")(ctx, tx); err != nil {
						return err
					}
					close(inserted)
					<-goOn
					return end
				})
			})
			<-inserted
			var mine bool
			all.Go(func() {
				time.AfterFunc(50*time.Millisecond, func() { close(goOn) }) // by then the second most likely waits
				if err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
					mine, err = tx.InsertNew(ctx, "INSERT INTO meta (name, value) VALUES ('a', '2')")
					return err
				}); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			if mine != (end != nil) {
				t.Errorf("the second one's row is new: %v", mine)
			}
		})
	}
}

// TestConnectionsAreLost: the server ends our connections. Idle ones are replaced unnoticed; a
// transaction fails.
func TestConnectionsAreLost(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	source, admin := sqldbtest.Empty(t)
	name := source[strings.LastIndexByte(source, '/')+1:]
	db := openSource(t, source)
	killAll := func() {
		rows, err := admin.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE db = ?", name)
		ids, err := sqldb.Scan(rows, err, func(id *int64, scan func(...any) error) error { return scan(id) })
		if err != nil || len(ids) == 0 {
			t.Fatalf("%d connections, %v", len(ids), err)
		}
		for _, id := range ids {
			_, _ = admin.ExecContext(t.Context(), fmt.Sprintf("KILL %d", id)) // it may have gone
		}
	}
	var all sync.WaitGroup
	for i := range 4 { // so that there are several connections
		all.Go(func() {
			if err := db.Write(t.Context(), put(fmt.Sprint(i), "x")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	killAll()
	if err := db.Write(t.Context(), put("idle", "x")); err != nil {
		t.Errorf("after idle connections were ended: %v", err)
	}
	if _, there := get(t, db, "idle"); !there {
		t.Error("it is not there")
	}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := put("torn", "x")(ctx, tx); err != nil {
			return err
		}
		killAll()
		return put("torn too", "x")(ctx, tx)
	})
	if _, there := get(t, db, "torn"); !drive.IsKind(err, drive.Unavailable) || there {
		t.Errorf("a transaction that lost its connection: %v, its row is there: %v", err, there)
	}
}

// farewell is a connection that fails when the client ends it.
type farewell struct{ driver.Connector }

func (f farewell) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	return untold{c}, err
}

type untold struct{ driver.Conn }

func (u untold) Close() error {
	return errors.Join(u.Conn.Close(), errors.New("connection reset by peer"))
}

func (u untold) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return u.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

// TestCloseAfterConnectionsWereLost: Close succeeds although connections were lost, because every
// commit was answered.
func TestCloseAfterConnectionsWereLost(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	source, _ := sqldbtest.Empty(t)
	db, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: source, Connections: 1, Connector: func(dsn string) (driver.Connector, error) {
		c, err := sqldb.NewConnector(dsn)
		return farewell{c}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), put("a", "x")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	base, err := url.Parse(servicetest.URL(t, servicetest.MySQL))
	if err != nil {
		t.Fatal(err)
	}
	base.Path = "/nosuch_" + servicetest.Unique()
	missing := *base
	base.User = url.UserPassword("nobody", "wrong")
	for name, c := range map[string]struct{ url, want string }{
		"database": {missing.String(), "CREATE DATABASE nosuch_"},
		"user":     {base.String(), "refuses the user nobody"},
	} {
		_, err := sqldb.Open(t.Context(), sqldb.Options{MySQL: c.url})
		if err == nil || !strings.Contains(err.Error(), c.want) || drive.IsKind(err, drive.Unavailable) {
			t.Errorf("%s: %v, want %q, and no reason to wait", name, err, c.want)
		}
	}
}

func TestNowIsTheServersClock(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	before := drive.TimeOf(time.Now())
	now, err := db.Now(t.Context())
	if after := drive.TimeOf(time.Now()); err != nil || now < before.Add(-time.Second) || now > after.Add(time.Second) {
		t.Errorf("%v, %v, between %v and %v", now, err, before, after)
	}
}

// TestKeysAreComparedByteByByte: keys that differ only by trailing spaces, case or accents are
// different, as in SQLite.
func TestKeysAreComparedByteByByte(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	names := []string{"a", "A", "a ", "a  ", "ä", "a\u0308", "å", "ss", "ß", "\U0001F600", "\U0001F601", "a\t", ""}
	for _, name := range names {
		if err := db.Write(t.Context(), put(name, "1")); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	rows, err := db.Query(t.Context(), "SELECT name FROM meta ORDER BY name")
	got, err := sqldb.Scan(rows, err, func(s *string, scan func(...any) error) error { return scan(s) })
	slices.Sort(names)
	if diff := cmp.Diff(names, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}
