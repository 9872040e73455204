package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Time-outs of MySQL. A transaction holds its locks for some milliseconds; who waits longer for one
// waits in vain.
const (
	dialTime    = 5 * time.Second
	readTime    = 20 * time.Second // for the first rows of an answer, as long as a transaction; the audit of a large tree takes seconds
	writeTime   = 15 * time.Second // to send a statement
	idleTime    = 30               // seconds that a transaction may stand still; then MariaDB takes it back
	lockTime    = 5                // seconds that a statement waits for a row; then 1205
	connLife    = 30 * time.Minute // so that a pool follows a proxy that moves it elsewhere
	connIdle    = 5 * time.Minute
	maxDeepness = 5000 // levels of a recursive statement: more than any has
)

// settings are the session variables that both servers know. Strict: what does not fit is an error,
// never cut.
var settings = map[string]string{
	"sql_mode":                 "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
	"time_zone":                "'+00:00'",
	"innodb_lock_wait_timeout": strconv.Itoa(lockTime),
}

// openMySQL opens a database on a server that several processes may share.
func openMySQL(ctx context.Context, opt Options) (*DB, error) {
	cfg, err := parseMySQL(opt.MySQL)
	if err != nil {
		return nil, err
	}
	place := cfg.DBName + " at " + cfg.Addr
	complete(cfg)
	server, err := prepareServer(ctx, cfg, opt)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", place, atOpen(err, cfg))
	}
	maps.Copy(cfg.Params, server.settings())
	if opt.Unchecked {
		cfg.Params["foreign_key_checks"] = "0"
		cfg.Params["innodb_lock_wait_timeout"], cfg.Params["lock_wait_timeout"] = "1", "5" // others queue up behind who waits
	}
	readCfg := cfg.Clone()
	maps.Copy(readCfg.Params, server.readOnly())
	opt.Connections = cmp.Or(opt.Connections, defaultConnections)
	if opt.Look {
		reads, err := openPool(readCfg, opt, 1)
		if err != nil {
			return nil, fmt.Errorf("open the database %s: %w", place, err)
		}
		return &DB{engine: &engine{dialect: MySQL, reads: reads, writer: noWriter{}}}, nil
	}
	writes, err := openPool(cfg, opt, opt.Connections)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", place, err)
	}
	reads, err := openPool(readCfg, opt, readers(opt.Connections))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database %s: %w", place, err), writes.Close())
	}
	db := &DB{engine: &engine{dialect: MySQL, reads: reads}}
	db.writer = &pool{db: writes, idle: opt.Connections, twice: opt.Twice, stats: &db.stats}
	return db, nil
}

// atOpen says what must be put right before the first start. Later the same errors are Unavailable:
// somebody is at work on the server, and waiting may help.
func atOpen(err error, cfg *mysql.Config) error {
	var engine *mysql.MySQLError
	if !errors.As(err, &engine) {
		return err
	}
	switch engine.Number {
	case erUnknownDatabase:
		return fmt.Errorf("there is no such database; make it with CREATE DATABASE %s, and give %s all rights on it", cfg.DBName, cfg.User)
	case erDatabaseDenied:
		return fmt.Errorf("the user %s has no rights on it, or it does not exist; make it with CREATE DATABASE %[2]s, and GRANT ALL ON %[2]s.* to the user", cfg.User, cfg.DBName)
	case erUserDenied:
		return fmt.Errorf("the server refuses the user %s with this password from this machine", cfg.User)
	}
	return err
}

// complete sets what does not depend on the server. UPDATE counts the rows that it matched, as
// SQLite does, whether or not it changed them.
func complete(cfg *mysql.Config) {
	cfg.Collation = "utf8mb4_bin"
	cfg.Loc, cfg.ParseTime = time.UTC, true
	cfg.InterpolateParams, cfg.ClientFoundRows = true, true
	cfg.MultiStatements, cfg.AllowAllFiles = false, false
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = dialTime, readTime, writeTime
	cfg.Params = maps.Clone(settings)
}

func openPool(cfg *mysql.Config, opt Options, size int) (*sql.DB, error) {
	connector, err := opt.Connector(cfg.FormatDSN())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxLifetime(connLife)
	db.SetConnMaxIdleTime(connIdle)
	return db, nil
}

// prepareServer checks the server and migrates. It does so past the pools and their decorators.
func prepareServer(ctx context.Context, cfg *mysql.Config, opt Options) (server, error) {
	patient := cfg.Clone()
	patient.ReadTimeout = migrateTime + readTime // for the lock, and for a change of a large table
	connector, err := NewConnector(patient.FormatDSN())
	if err != nil {
		return server{}, err
	}
	db := sql.OpenDB(connector)
	s, err := askServer(ctx, db)
	if err == nil {
		err = s.check()
	}
	if err == nil && !opt.Look {
		err = migrateLocked(ctx, db, cfg.DBName, opt.Change)
	}
	if err == nil && !s.durable {
		opt.Log.WarnContext(ctx, "the database server does not sync each commit: a power loss may take acknowledged changes",
			"setting", "innodb_flush_log_at_trx_commit", "wanted", 1)
	}
	return s, errors.Join(err, db.Close())
}

// server is what the database server says of itself.
type server struct {
	maria   bool
	version string
	numbers [3]int // of the version
	durable bool
}

var versionText = regexp.MustCompile(`^(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)(.*)$`) // MariaDB sends 5.5.5- first to please old replicas

func askServer(ctx context.Context, db *sql.DB) (s server, err error) {
	var flush int
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), @@innodb_flush_log_at_trx_commit").Scan(&s.version, &flush); err != nil {
		return server{}, classify(err)
	}
	s.durable = flush == 1
	return s, s.parse()
}

func (s *server) parse() error {
	m := versionText.FindStringSubmatch(s.version)
	if m == nil {
		return fmt.Errorf("the server calls its version %q: MySQL 8.0 or MariaDB 10.6 is needed", s.version)
	}
	for i := range s.numbers {
		s.numbers[i], _ = strconv.Atoi(m[i+1]) // digits
	}
	s.maria = strings.Contains(strings.ToLower(m[4]), "mariadb")
	return nil
}

// check refuses a server that lacks what the statements need. MySQL has recursive queries and
// NOWAIT from 8.0 on, lets a column be named admin from 8.0.12 on, and heeds CHECK from 8.0.16 on.
func (s server) check() error {
	name, oldest := "MySQL", [3]int{8, 0, 16}
	if s.maria {
		name, oldest = "MariaDB", [3]int{10, 6, 0}
	}
	if slices.Compare(s.numbers[:], oldest[:]) < 0 {
		return fmt.Errorf("the server is %s %s, and %d.%d.%d is the oldest that works", name, s.version, oldest[0], oldest[1], oldest[2])
	}
	return nil
}

// settings are the session variables that the two servers name differently, or that only one has: a
// process that is frozen, or was cut off in a way that the server cannot see, does not keep what it
// has locked. MariaDB calls a transaction that has locked rows and not changed one yet read only;
// of the three limits on idle ones it takes the general one only where the other is 0.
func (s server) settings() map[string]string {
	if s.maria {
		idle := strconv.Itoa(idleTime)
		return map[string]string{
			"tx_isolation": "'READ-COMMITTED'", "max_recursive_iterations": strconv.Itoa(maxDeepness),
			"idle_transaction_timeout": idle, "idle_write_transaction_timeout": idle, "idle_readonly_transaction_timeout": idle,
		}
	}
	return map[string]string{"transaction_isolation": "'READ-COMMITTED'", "cte_max_recursion_depth": strconv.Itoa(maxDeepness)}
}

// readOnly are the session variables of the readers besides.
func (s server) readOnly() map[string]string {
	if s.maria {
		return map[string]string{"tx_read_only": "1"}
	}
	return map[string]string{"transaction_read_only": "1"}
}
