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

// Timeouts for MySQL. Transactions hold locks for milliseconds, so a longer wait will not succeed.
const (
	dialTime     = 5 * time.Second
	readTime     = 20 * time.Second // for the first rows of a result, as long as a transaction; the audit of a large tree takes seconds
	writeTime    = 15 * time.Second // to send a statement
	idleTime     = 30               // seconds that a transaction may be idle; MariaDB then rolls it back
	lockTime     = 5                // seconds that a statement waits for a row lock; then error 1205
	connLife     = 30 * time.Minute // lets a pool follow a proxy that moves connections
	connIdle     = 5 * time.Minute
	maxRecursion = 5000 // recursion limit of a statement, above every real depth
)

// settings are session variables common to both servers. Strict mode: values that do not fit are
// errors, never truncated.
var settings = map[string]string{
	"sql_mode":                 "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
	"time_zone":                "'+00:00'",
	"innodb_lock_wait_timeout": strconv.Itoa(lockTime),
}

// openMySQL checks the server at Options.MySQL, migrates its database and opens pools for writing
// and for reading. With Options.ReadOnly it neither migrates nor writes and opens one connection
// for reading. Several processes may use the database; on an error everything is closed.
func openMySQL(ctx context.Context, opt Options) (*DB, error) {
	cfg, err := parseMySQL(opt.MySQL)
	if err != nil {
		return nil, err
	}
	place := cfg.DBName + " at " + cfg.Addr
	complete(cfg)
	server, err := prepareServer(ctx, cfg, opt)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", place, explainOpenError(err, cfg))
	}
	maps.Copy(cfg.Params, server.settings())
	if opt.NoForeignKeys {
		cfg.Params["foreign_key_checks"] = "0"
		cfg.Params["innodb_lock_wait_timeout"], cfg.Params["lock_wait_timeout"] = "1", "5" // other statements queue behind a waiting one
	}
	readCfg := cfg.Clone()
	maps.Copy(readCfg.Params, server.readOnly())
	opt.Connections = cmp.Or(opt.Connections, defaultConnections)
	if opt.ReadOnly {
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
	db.writer = &pool{db: writes, idle: opt.Connections, twice: opt.RunTwice, stats: &db.stats}
	return db, nil
}

// explainOpenError explains errors that an administrator must fix before the first start. Later the
// same errors are Unavailable, because the server may be under maintenance.
func explainOpenError(err error, cfg *mysql.Config) error {
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

// complete sets the options that are independent of the server. UPDATE counts matched rows, as
// SQLite does.
func complete(cfg *mysql.Config) {
	cfg.Collation = "utf8mb4_bin"
	cfg.Loc, cfg.ParseTime = time.UTC, true
	cfg.InterpolateParams, cfg.ClientFoundRows = true, true
	cfg.MultiStatements, cfg.AllowAllFiles = false, false
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = dialTime, readTime, writeTime
	cfg.Params = maps.Clone(settings)
}

// openPool returns a connection pool of at most size connections, which it opens on first use; so
// it fails only if the configuration is not valid.
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

// prepareServer checks version and settings of the server, migrates the schema unless
// Options.ReadOnly, and logs a warning if commits are not durable. It uses a connection of its own
// without Options.Connector. It fails if the server is too old or unreachable or the migration
// fails.
func prepareServer(ctx context.Context, cfg *mysql.Config, opt Options) (server, error) {
	patient := cfg.Clone()
	patient.ReadTimeout = migrateTime + readTime // for the lock, and for changes of large tables
	connector, err := NewConnector(patient.FormatDSN())
	if err != nil {
		return server{}, err
	}
	db := sql.OpenDB(connector)
	s, err := queryServer(ctx, db)
	if err == nil {
		err = s.check()
	}
	if err == nil && !opt.ReadOnly {
		err = migrateLocked(ctx, db, cfg.DBName, opt.OnSchemaChange)
	}
	if err == nil && !s.durable {
		opt.Log.WarnContext(ctx, "the database server does not sync each commit: a power loss may take acknowledged changes",
			"setting", "innodb_flush_log_at_trx_commit", "wanted", 1)
	}
	return s, errors.Join(err, db.Close())
}

// server holds the version of a database server and whether it syncs each commit.
type server struct {
	maria   bool   // MariaDB, not MySQL
	version string // as the server reports it
	numbers [3]int // numbers of the version
	durable bool   // a commit is synced before it is acknowledged
}

// versionText matches the result of VERSION().
var versionText = regexp.MustCompile(`^(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)(.*)$`) // MariaDB prefixes 5.5.5- for old replicas

// queryServer reads the version of the server and whether it syncs each commit. It fails if the
// version cannot be parsed.
func queryServer(ctx context.Context, db *sql.DB) (s server, err error) {
	var flush int
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), @@innodb_flush_log_at_trx_commit").Scan(&s.version, &flush); err != nil {
		return server{}, classify(err)
	}
	s.durable = flush == 1
	return s, s.parse()
}

// parse sets s.numbers and s.maria from s.version. It fails if the text is not like that of MySQL
// or MariaDB.
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

// check returns an error for an unsupported version. MySQL has recursive queries and NOWAIT since
// 8.0, allows a column named admin since 8.0.12, and enforces CHECK since 8.0.16.
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

// settings returns session variables that differ between the servers. The limits on idle
// transactions release the locks of a process that is frozen or disconnected without notice.
// MariaDB treats a transaction that has only locked rows as read-only, and applies the general
// limit only where a specific one is 0.
func (s server) settings() map[string]string {
	if s.maria {
		idle := strconv.Itoa(idleTime)
		return map[string]string{
			"tx_isolation": "'READ-COMMITTED'", "max_recursive_iterations": strconv.Itoa(maxRecursion),
			"idle_transaction_timeout": idle, "idle_write_transaction_timeout": idle, "idle_readonly_transaction_timeout": idle,
		}
	}
	return map[string]string{"transaction_isolation": "'READ-COMMITTED'", "cte_max_recursion_depth": strconv.Itoa(maxRecursion)}
}

// readOnly returns the additional session variables of read connections.
func (s server) readOnly() map[string]string {
	if s.maria {
		return map[string]string{"tx_read_only": "1"}
	}
	return map[string]string{"transaction_read_only": "1"}
}
