package sqldbtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// pooledDB is a database on the MySQL server for tests. Creating one takes a third of a second, so
// they are reused by this and later processes. The process that holds the server's lock of the same
// name owns the database; the server releases the lock when the process ends. Rows of earlier tests
// are deleted before reuse.
type pooledDB struct {
	source string // for sqldb.Options
	name   string
	conn   *sql.Conn // holds the lock
	tables []table

	path  string // path that it replaces; guarded by pool.mu
	users int    // number of users of the path; guarded by pool.mu
}

// table is a table of a pooledDB.
type table struct {
	name    string
	numbers bool // has automatic ids, which must restart at 1
}

// pool holds the databases that this process owns.
var pool struct {
	mu    sync.Mutex
	admin *sql.DB
	stem  string // prefix of their names; contains the checksum of the migrations
	next  int
	free  []*pooledDB          // unused
	used  map[string]*pooledDB // in use with a path, by path
}

// borrow returns an empty database for the test, or the database in use for the same path. An empty
// path always gives another database.
func borrow(t testing.TB, path string) *pooledDB {
	t.Helper()
	where := servicetest.URL(t, servicetest.MySQL)
	if d := share(path); d != nil {
		return d
	}
	d, err := acquire(where)
	if err == nil {
		err = d.clean()
	}
	if err != nil {
		t.Fatalf("borrow a MySQL database: %v", err)
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	d.path, d.users = path, 1
	if path != "" {
		pool.used[path] = d
	}
	return d
}

// share returns the database in use for a path and counts another user, or returns nil.
func share(path string) *pooledDB {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	d := pool.used[path]
	if d != nil {
		d.users++
	}
	return d
}

// giveBack ends one use of the database. After the last one another test may use the database,
// whose rows are kept until then.
func (d *pooledDB) giveBack() {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	delete(pool.used, d.path)
	pool.free = append(pool.free, d)
}

// acquire returns a database that no other test uses: one that this process has put back, else a
// new or existing one of the server, which it locks by name for the life of the process. Rows of
// earlier tests may be in it.
func acquire(where string) (*pooledDB, error) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if n := len(pool.free); n > 0 {
		d := pool.free[n-1]
		pool.free = pool.free[:n-1]
		return d, nil
	}
	if err := openPool(where); err != nil {
		return nil, err
	}
	conn, err := pool.admin.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	for ; ; pool.next++ {
		d := &pooledDB{name: fmt.Sprintf("%s_%d", pool.stem, pool.next), conn: conn}
		var got int
		if err := conn.QueryRowContext(context.Background(), "SELECT GET_LOCK(?, 0)", d.name).Scan(&got); err != nil {
			return nil, err
		}
		if got == 1 {
			pool.next++
			d.source = strings.TrimSuffix(where, "/") + "/" + d.name
			return d, d.build()
		}
	}
}

// openPool sets up the connection pool to the server on the first call; later calls do nothing. It
// connects on first use. The caller holds pool.mu.
func openPool(where string) error {
	if pool.admin != nil {
		return nil
	}
	u, err := url.Parse(where)
	if err != nil {
		return errors.New("SMARTDRIVE_TEST_MYSQL is not a URL")
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.InterpolateParams = u.User.Username(), "tcp", u.Host, true
	cfg.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	sum, err := schemaSum()
	pool.admin, pool.stem, pool.used = sql.OpenDB(connector), "sdtest_"+sum, map[string]*pooledDB{}
	return err
}

// schemaSum returns a short checksum of the MySQL migrations, which becomes part of the database
// names, so that databases with another schema are not reused.
func schemaSum() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(sqldb.Migrations(), "migrations/mysql", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(sqldb.Migrations(), path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:5]), err
}

// build creates the database if it is missing, migrates it and sets d.tables. The caller holds the
// lock of its name.
func (d *pooledDB) build() error {
	ctx := context.Background()
	if _, err := d.conn.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+d.name); err != nil {
		return err
	}
	db, err := sqldb.Open(ctx, sqldb.Options{MySQL: d.source, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	rows, err := d.conn.QueryContext(ctx, `SELECT table_name, auto_increment IS NOT NULL FROM information_schema.tables
		WHERE table_schema = ? AND table_name <> 'goose_db_version'`, d.name)
	d.tables, err = sqldb.Scan(rows, err, func(t *table, scan func(...any) error) error { return scan(&t.name, &t.numbers) })
	return err
}

// clean deletes the rows of all tables that have any, and resets the automatic ids. Foreign keys
// stay unchecked on d's own connection.
func (d *pooledDB) clean() error {
	ctx := context.Background()
	var looks []string
	numbers := map[string]bool{}
	for _, t := range d.tables {
		looks = append(looks, fmt.Sprintf("SELECT '%s' FROM DUAL WHERE EXISTS (SELECT 1 FROM %s.%s)", t.name, d.name, t.name))
		numbers[t.name] = t.numbers
	}
	looks = append(looks, "SELECT table_name FROM information_schema.tables WHERE table_schema = '"+d.name+"' AND auto_increment > 1")
	rows, err := d.conn.QueryContext(ctx, strings.Join(looks, " UNION "))
	used, err := sqldb.Scan(rows, err, func(name *string, scan func(...any) error) error { return scan(name) })
	if err != nil || len(used) == 0 {
		return err
	}
	if _, err := d.conn.ExecContext(ctx, "SET foreign_key_checks = 0"); err != nil {
		return err
	}
	for _, name := range used {
		how := "DELETE FROM "
		if numbers[name] {
			how = "TRUNCATE TABLE "
		}
		if _, err := d.conn.ExecContext(ctx, how+d.name+"."+name); err != nil {
			return fmt.Errorf("empty %s: %w", name, err)
		}
	}
	return nil
}

// Empty creates an empty database without a schema for the test, and returns its data source and a
// connection to the server. The end of the test drops it.
func Empty(t testing.TB) (source string, admin *sql.DB) {
	t.Helper()
	where := servicetest.URL(t, servicetest.MySQL)
	pool.mu.Lock()
	err := openPool(where)
	pool.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	name := "sdtest_" + servicetest.Unique()
	if _, err := pool.admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := Drop(context.Background(), pool.admin, name)
		if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == errDropRmdir {
			t.Logf("the directory of an empty database stays at the server of the tests: %v", err)
		} else if err != nil {
			t.Error(err)
		}
	})
	return strings.TrimSuffix(where, "/") + "/" + name, pool.admin
}

const (
	// dropTime bounds how long Drop retries.
	dropTime = 30 * time.Second
	// dropPause is the pause between two attempts of Drop.
	dropPause = 50 * time.Millisecond

	errDropRmdir = 1010 // ER_DB_DROP_RMDIR
)

// Drop drops a database. InnoDB may delete the file of a dropped table late, and the server then
// cannot remove the directory; Drop retries for dropTime. MariaDB may leave the old file of a
// trigger (name.TRG-) permanently if a connection breaks during a change; then only the directory
// remains.
func Drop(ctx context.Context, admin *sql.DB, name string) error {
	ctx, cancel := context.WithTimeout(ctx, dropTime)
	defer cancel()
	for {
		_, err := admin.ExecContext(ctx, "DROP DATABASE "+name)
		if e, ok := errors.AsType[*mysql.MySQLError](err); !ok || e.Number != errDropRmdir {
			return err
		}
		select {
		case <-time.After(dropPause):
		case <-ctx.Done():
			return err
		}
	}
}

// Close releases all databases of this process and closes its connections, for tests that detect
// leaked goroutines. Call it after the last test.
func Close() error {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.admin == nil {
		return nil
	}
	var errs []error
	for _, d := range pool.free {
		errs = append(errs, d.conn.Close())
	}
	errs = append(errs, pool.admin.Close())
	pool.admin, pool.free = nil, nil
	return errors.Join(errs...)
}
