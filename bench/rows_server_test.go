//go:build linux

package bench

import (
	"context"
	crand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

const connections = 32 // SmartDrive's default

var errNotThere = errors.New("the row is not there, or not as it was asked for")

// rowServer is a separate database, opened both directly and through SmartDrive's sqldb.
type rowServer struct {
	db                 *sql.DB
	isolation, version string

	drive           *sqldb.DB
	redis           *redis.Client
	calls           sqldbtest.Counter
	name, driveName string
}

func openRows(b *testing.B, isolation string) *rowServer {
	b.Helper()
	where, err := url.Parse(servicetest.URL(b, servicetest.MySQL))
	must(b, err)
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User = "tcp", where.Host, where.User.Username()
	cfg.Passwd, _ = where.User.Password()
	cfg.InterpolateParams, cfg.ClientFoundRows = true, true
	s := &rowServer{isolation: isolation, name: servicetest.Unique(), driveName: servicetest.Unique()}
	s.create(b, cfg)
	setting := "transaction_isolation"
	if strings.Contains(s.version, "MariaDB") {
		setting = "tx_isolation"
	}
	cfg.Params = map[string]string{setting: "'" + isolation + "'"}
	cfg.DBName = s.name
	connector, err := mysql.NewConnector(cfg)
	must(b, err)
	s.db = sql.OpenDB(connector)
	s.db.SetMaxOpenConns(connections)
	s.db.SetMaxIdleConns(connections)
	for _, q := range []string{
		`CREATE TABLE numbered (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, user_id INT NOT NULL UNIQUE, total BIGINT NOT NULL, amount BIGINT NOT NULL) ENGINE=InnoDB`,
		`CREATE TABLE own (user_id INT NOT NULL PRIMARY KEY, total BIGINT NOT NULL, amount BIGINT NOT NULL) ENGINE=InnoDB`,
	} {
		_, err := s.db.ExecContext(b.Context(), q)
		must(b, err)
	}
	options, err := redis.ParseURL(servicetest.URL(b, servicetest.Redis))
	must(b, err)
	s.redis = redis.NewClient(options)
	place := *where
	place.Path = "/" + s.driveName
	s.drive, err = sqldb.Open(b.Context(), sqldb.Options{
		MySQL: place.String(), Connections: connections, Connector: s.calls.Connector, Log: slog.New(slog.DiscardHandler),
	})
	must(b, err)
	return s
}

func (s *rowServer) create(b *testing.B, cfg *mysql.Config) {
	b.Helper()
	connector, err := mysql.NewConnector(cfg)
	must(b, err)
	db := sql.OpenDB(connector)
	must(b, db.QueryRowContext(b.Context(), "SELECT VERSION()").Scan(&s.version))
	for _, name := range []string{s.name, s.driveName} {
		_, err := db.ExecContext(b.Context(), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
		must(b, err)
	}
	must(b, db.Close())
}

func (s *rowServer) close(b *testing.B) {
	b.Helper()
	must(b, errors.Join(s.drive.Close(), s.redis.Close()))
	for _, name := range []string{s.name, s.driveName} {
		_, err := s.db.ExecContext(b.Context(), "DROP DATABASE "+name)
		must(b, err)
	}
	must(b, s.db.Close())
}

func makeLedger(account drive.AccountID) func(context.Context, *sqldb.Tx) error {
	all := drive.GiB
	return func(ctx context.Context, tx *sqldb.Tx) error { return quota.Ledger{}.Create(ctx, tx, account, &all) }
}

func moveLedger(account drive.AccountID, m quota.Move) func(context.Context, *sqldb.Tx) error {
	return func(ctx context.Context, tx *sqldb.Tx) error { return quota.Ledger{}.Apply(ctx, tx, account, m) }
}

// request is a running request: its connection, and the statements that it has sent.
type request struct {
	ctx        context.Context //nolint:containedctx // a request of one benchmark
	conn       *sql.Conn
	table      string
	user       int
	statements int // SQL statements and Redis commands

	redis *redis.Client
	locks string // prefix of lock names, followed by the user
}

// lockLife is the expiry of a lock in Redis that its holder does not release, many times the
// duration of the work under the lock.
const lockLife = 10 * time.Second

// unlockOwn deletes a lock if it still belongs to the caller.
var unlockOwn = redis.NewScript(`return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1]) or 0`)

// lock acquires the user's lock. With again it retries after pauses until it succeeds; otherwise it
// fails with errRefused if the lock is held.
func (r *request) lock(again bool) (unlock func() error, err error) {
	key, mine := fmt.Sprint(r.locks, r.user), crand.Text()
	for {
		r.statements++
		got, err := r.redis.SetNX(r.ctx, key, mine, lockLife).Result()
		switch {
		case err != nil:
			return nil, err
		case got:
			return func() error {
				r.statements++
				return unlockOwn.Run(r.ctx, r.redis, []string{key}, mine).Err()
			}, nil
		case !again:
			return nil, errRefused
		}
		<-time.After(rand.N(10 * time.Millisecond))
	}
}

func (r *request) exec(query string, args ...any) error {
	r.statements++
	_, err := r.conn.ExecContext(r.ctx, query, args...)
	return err
}

// read reports whether the user's row exists, and fails if the row is wrong.
func (r *request) read(query string) (bool, error) {
	r.statements++
	var got int
	err := r.conn.QueryRowContext(r.ctx, query, r.user).Scan(&got)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err == nil && got != total:
		err = errNotThere
	}
	return err == nil, err
}

// inTx runs fn in a transaction.
func (r *request) inTx(fn func() error) error {
	err := r.exec("BEGIN")
	if err == nil {
		err = fn()
	}
	if err != nil {
		return errors.Join(err, r.exec("ROLLBACK"))
	}
	return r.exec("COMMIT")
}

// do ensures that the row exists and adds 1 to it, inside one transaction or in two.
func (r *request) do(sch scheme, inside bool) error {
	add := func() error { return r.exec("UPDATE "+r.table+" SET amount = amount + 1 WHERE user_id = ?", r.user) }
	switch {
	case inside:
		return r.inTx(func() error {
			if err := sch.ready(r); err != nil {
				return err
			}
			return add()
		})
	case sch.tx:
		if err := r.inTx(func() error { return sch.ready(r) }); err != nil {
			return err
		}
	default:
		if err := sch.ready(r); err != nil {
			return err
		}
	}
	return add()
}

func isDeadlock(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (e.Number == 1213 || e.Number == 1205)
}

// run starts all requests of a crowd at once and evaluates the result.
func (s *rowServer) run(b *testing.B, sch scheme, c crowd) outcome {
	b.Helper()
	s.empty(b, sch.table, c)
	var mu sync.Mutex
	var deadlocks, statements int
	out := storm(func(i int) error {
		conn, err := s.db.Conn(b.Context())
		if err != nil {
			return err
		}
		r := &request{ctx: b.Context(), conn: conn, table: sch.table, user: 1 + i%c.users, redis: s.redis, locks: s.name}
		err = r.do(sch, c.inside)
		met := 0
		for ; isDeadlock(err) && met < 3; met++ {
			<-time.After(rand.N(2 * 20 * time.Millisecond << met))
			err = r.do(sch, c.inside)
		}
		if isDeadlock(err) {
			met++
		}
		mu.Lock()
		deadlocks += met
		statements += r.statements
		mu.Unlock()
		return errors.Join(err, conn.Close())
	})
	out.deadlocks, out.statements = float64(deadlocks), float64(statements)/requests
	s.count(b, sch.table, c, &out)
	return out
}

// empty empties a table, and inserts the rows if the crowd expects them.
func (s *rowServer) empty(b *testing.B, table string, c crowd) {
	b.Helper()
	_, err := s.db.ExecContext(b.Context(), "TRUNCATE TABLE "+table)
	must(b, err)
	for user := 1; c.there && user <= c.users; user++ {
		_, err := s.db.ExecContext(b.Context(), "INSERT INTO "+table+" (user_id, total, amount) VALUES (?, ?, 0)", user, total)
		must(b, err)
	}
}

// count finds lost additions and burnt ids; the next assigned id tells how many were used.
func (s *rowServer) count(b *testing.B, table string, c crowd, out *outcome) {
	b.Helper()
	var rows, sum float64
	must(b, s.db.QueryRowContext(b.Context(), "SELECT COUNT(*), COALESCE(SUM(amount), 0) FROM "+table).Scan(&rows, &sum))
	if int(rows) != c.users {
		b.Errorf("%d rows for %d users", int(rows), c.users)
	}
	out.lost = requests - out.failed - sum
	if table != "numbered" {
		return
	}
	res, err := s.db.ExecContext(b.Context(), "INSERT INTO numbered (user_id, total, amount) VALUES (0, 0, 0)")
	must(b, err)
	next, err := res.LastInsertId()
	must(b, err)
	out.burnt = float64(next) - 1 - rows
}

// outcome holds the figures of one storm.
type outcome struct {
	perSecond, p50, p99                        float64
	deadlocks, failed, lost, statements, burnt float64
}

// storm runs all requests at once. Durations count from the common start, so that waiting for a
// connection is included.
func storm(request func(i int) error) outcome {
	latency := make([]float64, requests)
	failed := make([]bool, requests)
	var wait sync.WaitGroup
	gate := make(chan struct{})
	var began time.Time
	for i := range requests {
		wait.Go(func() {
			<-gate
			err := request(i)
			latency[i], failed[i] = ms(time.Since(began)), err != nil
		})
	}
	began = time.Now()
	close(gate)
	wait.Wait()
	out := outcome{perSecond: requests / time.Since(began).Seconds()}
	slices.Sort(latency)
	out.p50, out.p99 = latency[requests/2], latency[requests*99/100]
	for _, f := range failed {
		if f {
			out.failed++
		}
	}
	return out
}

// outcomes holds the figures of several rounds.
type outcomes struct {
	perSecond, p50, p99, deadlocks, failed, lost, statements, burnt sample
}

func (o *outcomes) add(x outcome) {
	o.perSecond.add(x.perSecond)
	o.p50.add(x.p50)
	o.p99.add(x.p99)
	o.deadlocks.add(x.deadlocks)
	o.failed.add(x.failed)
	o.lost.add(x.lost)
	o.statements.add(x.statements)
	o.burnt.add(x.burnt)
}

// cells formats the outcomes for the table.
func (o *outcomes) cells() []any {
	cells := []any{}
	for _, s := range []sample{o.p50, o.p99, o.deadlocks, o.failed, o.lost, o.statements, o.burnt} {
		cells = append(cells, spread(s))
	}
	return cells
}

// spread formats the median, and the extremes if they differ from it by more than 1 %.
func spread(s sample) string {
	low, middle, high := slices.Min(s), s.median(), slices.Max(s)
	if high-low <= middle/100 {
		return short(middle)
	}
	return fmt.Sprintf("%s (%s-%s)", short(middle), short(low), short(high))
}

// short formats three digits without an exponent.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
