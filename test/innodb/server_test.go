package innodb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

// Errors of the server that the traps end in.
const (
	isNull          = 1048 // a column that cannot be null
	duplicate       = 1062
	tooLarge        = 1264 // out of range for the column
	tooLong         = 1406
	noParent        = 1452 // a foreign key leads nowhere
	noPartition     = 1526
	lockWaitTimeout = 1205
	deadlock        = 1213
)

// Isolation of a session.
const (
	readCommitted  = "READ COMMITTED"  // SmartDrive's
	repeatableRead = "REPEATABLE READ" // the server's default
)

// enough for any wait on a machine that is busy with other tests
const enough = time.Minute

// server is a database of the test's own on the real server.
type server struct {
	*sql.DB
	name   string
	config *mysql.Config
}

// newServer makes a database with the given tables.
func newServer(t *testing.T, schema ...string) *server {
	t.Helper()
	where, err := url.Parse(servicetest.URL(t, servicetest.MySQL))
	must(t, err)
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User = "tcp", where.Host, where.User.Username()
	config.Passwd, _ = where.User.Password()
	admin := open(t, config)
	name := servicetest.Unique()
	exec(t, admin, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
	t.Cleanup(func() {
		if err := sqldbtest.Drop(context.Background(), admin, name); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	config.DBName = name
	s := &server{DB: open(t, config), name: name, config: config}
	for _, q := range schema {
		exec(t, s, q+" ENGINE=InnoDB")
	}
	return s
}

func open(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(config)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// session is a connection in a transaction.
type session struct {
	t    *testing.T
	conn *sql.Conn
}

func (s *server) session(t *testing.T, isolation string) *session {
	t.Helper()
	conn, err := s.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK") // ended already, or broken: the server does it then
		_ = conn.Close()
	})
	exec(t, conn, "SET TRANSACTION ISOLATION LEVEL "+isolation)
	exec(t, conn, "START TRANSACTION")
	return &session{t, conn}
}

// run executes and returns the number of rows and the error.
func (s *session) run(query string, args ...any) (int64, error) {
	res, err := s.conn.ExecContext(s.t.Context(), query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// must executes a statement that must succeed and returns the affected rows.
func (s *session) must(query string, args ...any) int64 {
	s.t.Helper()
	n, err := s.run(query, args...)
	must(s.t, err)
	return n
}

// start executes in the background what will wait for a lock; the error comes through the channel.
func (s *session) start(query string, args ...any) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.run(query, args...)
		done <- err
	}()
	return done
}

// all reads one column as text, in the order of the rows.
func (s *session) all(query string, args ...any) []string {
	s.t.Helper()
	return all(s.t, s.conn, query, args...)
}

func (s *session) commit() { s.t.Helper(); s.must("COMMIT") }

// awaitWaiting returns when n sessions on this database wait for a lock.
func (s *server) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	process.Eventually(t, enough, "sessions that wait for a lock", func() error {
		waiting, err := s.waiting(t.Context())
		if err == nil && waiting != n {
			err = fmt.Errorf("%d of %d", waiting, n)
		}
		return err
	})
}

// waitingThread matches the waiting sessions in the engine's report about its transactions.
var waitingThread = regexp.MustCompile(`(?s)\nLOCK WAIT.*?thread id (\d+),`)

// waiting counts the sessions of this database that wait for a lock. It reads the engine's status
// report instead of INNODB_TRX, a copy that is not refreshed while it is read within 0.1 s, so that
// frequent reads keep it stale.
func (s *server) waiting(ctx context.Context) (n int, err error) {
	var kind, name, report string
	if err := s.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &report); err != nil {
		return 0, err
	}
	for transaction := range strings.SplitSeq(report, "---TRANSACTION ") {
		thread := waitingThread.FindStringSubmatch(transaction)
		if thread == nil {
			continue
		}
		var ours int
		err := s.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND db = ?", thread[1], s.name).Scan(&ours)
		if err != nil {
			return 0, err
		}
		n += ours
	}
	return n, nil
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// exec executes a statement that must succeed and returns the affected rows.
func exec(t *testing.T, on execer, query string, args ...any) int64 {
	t.Helper()
	res, err := on.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	n, err := res.RowsAffected()
	must(t, err)
	return n
}

func all(t *testing.T, on queryer, query string, args ...any) (values []string) {
	t.Helper()
	rows, err := on.QueryContext(t.Context(), query, args...)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var v sql.NullString
		must(t, rows.Scan(&v))
		values = append(values, v.String)
	}
	must(t, rows.Err())
	return values
}

// wantCode fails unless err is the server's error of that number.
func wantCode(t *testing.T, err error, code uint16) {
	t.Helper()
	if codeOf(err) != code {
		t.Fatalf("error %v, want number %d", err, code)
	}
}

// codeOf returns the server's error number, 0 if err is not a server error.
func codeOf(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// wantOneVictim fails unless one of the two died of a deadlock and the other went through (or found
// the row there).
func wantOneVictim(t *testing.T, a, b error) {
	t.Helper()
	if (codeOf(a) == deadlock) == (codeOf(b) == deadlock) {
		t.Fatalf("%v and %v, want one deadlock", a, b)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("rows %v, want %v", got, want)
	}
}
