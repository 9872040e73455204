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

	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/testkit/servicetest"
)

// lent is a database of the MySQL server. To make one takes a third of a second, so they are used
// again: by this process and by later ones. Whoever holds the server's lock of that name owns the
// database; the server takes the lock back when the process ends, however it ends. What another
// test has left is removed when the database is lent again.
type lent struct {
	source string // for sqldb.Options
	name   string
	conn   *sql.Conn // holds the lock
	tables []table

	path  string // that it stands for; guarded by shelf.mu
	users int    // who have it under that path; guarded by shelf.mu
}

type table struct {
	name    string
	numbers bool // has an automatic id, which must begin at 1 again
}

// shelf holds the databases that this process owns and nobody uses.
var shelf struct {
	mu    sync.Mutex
	admin *sql.DB
	stem  string // of the names; it contains the sum of the migrations
	next  int
	free  []*lent
	used  map[string]*lent // by path
}

// borrow lends a database, or the one that stands for the path already; empty: of nobody else.
func borrow(t testing.TB, path string) *lent {
	t.Helper()
	where := servicetest.URL(t, servicetest.MySQL)
	if d := share(path); d != nil {
		return d
	}
	d, err := take(where)
	if err == nil {
		err = d.clean()
	}
	if err != nil {
		t.Fatalf("borrow a MySQL database: %v", err)
	}
	shelf.mu.Lock()
	defer shelf.mu.Unlock()
	d.path, d.users = path, 1
	if path != "" {
		shelf.used[path] = d
	}
	return d
}

func share(path string) *lent {
	shelf.mu.Lock()
	defer shelf.mu.Unlock()
	d := shelf.used[path]
	if d != nil {
		d.users++
	}
	return d
}

func (d *lent) giveBack() {
	shelf.mu.Lock()
	defer shelf.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	delete(shelf.used, d.path)
	shelf.free = append(shelf.free, d)
}

func take(where string) (*lent, error) {
	shelf.mu.Lock()
	defer shelf.mu.Unlock()
	if n := len(shelf.free); n > 0 {
		d := shelf.free[n-1]
		shelf.free = shelf.free[:n-1]
		return d, nil
	}
	if err := openShelf(where); err != nil {
		return nil, err
	}
	conn, err := shelf.admin.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	for ; ; shelf.next++ {
		d := &lent{name: fmt.Sprintf("%s_%d", shelf.stem, shelf.next), conn: conn}
		var got int
		if err := conn.QueryRowContext(context.Background(), "SELECT GET_LOCK(?, 0)", d.name).Scan(&got); err != nil {
			return nil, err
		}
		if got == 1 {
			shelf.next++
			d.source = strings.TrimSuffix(where, "/") + "/" + d.name
			return d, d.build()
		}
	}
}

func openShelf(where string) error {
	if shelf.admin != nil {
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
	shelf.admin, shelf.stem, shelf.used = sql.OpenDB(connector), "sdtest_"+sum, map[string]*lent{}
	return err
}

// schemaSum names the schema, so that a test never gets a database of another one.
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

// build makes the database unless it is there, and lists its tables.
func (d *lent) build() error {
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

// clean empties what is not empty.
func (d *lent) clean() error {
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

// Empty makes a database of the test's own in which there is nothing yet, and returns its source
// and a connection to the server. It is dropped at the end.
func Empty(t testing.TB) (source string, admin *sql.DB) {
	t.Helper()
	where := servicetest.URL(t, servicetest.MySQL)
	shelf.mu.Lock()
	err := openShelf(where)
	shelf.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	name := "sdtest_" + servicetest.Unique()
	if _, err := shelf.admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := Drop(context.Background(), shelf.admin, name)
		if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == errDropRmdir {
			t.Logf("the directory of an empty database stays at the server of the tests: %v", err)
		} else if err != nil {
			t.Error(err)
		}
	})
	return strings.TrimSuffix(where, "/") + "/" + name, shelf.admin
}

const (
	dropTime  = 30 * time.Second
	dropPause = 50 * time.Millisecond

	errDropRmdir = 1010 // ER_DB_DROP_RMDIR
)

// Drop drops a database. InnoDB may remove the file of a dropped table later than the table; as
// long as one is there the server cannot remove the directory, and says so: then it is tried again.
// MariaDB may also leave the old file of a trigger behind for good, where the connection that
// changes triggers breaks off in that moment (name.TRG-): nothing but the directory is left then.
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

// Close gives back all databases that this process owns and ends its connections to the server: for
// who looks for goroutines that were left behind. It is called after the last test.
func Close() error {
	shelf.mu.Lock()
	defer shelf.mu.Unlock()
	if shelf.admin == nil {
		return nil
	}
	var errs []error
	for _, d := range shelf.free {
		errs = append(errs, d.conn.Close())
	}
	errs = append(errs, shelf.admin.Close())
	shelf.admin, shelf.free = nil, nil
	return errors.Join(errs...)
}
