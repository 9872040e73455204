package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// comparison is one table of the articles, with the function that measures its figures.
type comparison struct {
	name, id string
	title    text
	columns  []text
	needs    []string // required services: mysql, redis, kafka
	run      func(ctx context.Context, b *bench, t *table) error
}

// comparisons lists all comparisons in the order of printing.
var comparisons = []comparison{
	structures,
	places,
	architectures,
	writes,
	buckets,
	schemas,
	rows,
}

// bench is one run of a comparison: its options and the resources to close at its end.
type bench struct {
	fast    bool
	log     io.Writer
	address map[string]string // service addresses by name
	closers []func() error
}

// newBench reads the addresses of services from the environment, and otherwise from the file that
// "make services" writes.
func newBench(fast bool, log io.Writer) *bench {
	b := &bench{fast: fast, log: log, address: map[string]string{}}
	if f, err := os.Open(filepath.Join(".services", "env")); err == nil {
		for lines := bufio.NewScanner(f); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), "=")
			b.setAddress(name, strings.Trim(value, "'"))
		}
		_ = f.Close()
	}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		b.setAddress(name, value)
	}
	return b
}

func (b *bench) setAddress(variable, value string) {
	name, ok := strings.CutPrefix(variable, "SMARTDRIVE_TEST_")
	if ok && value != "" {
		b.address[strings.ToLower(name)] = value
	}
}

// missing returns the needed services that are not available. An in-process Kafka (kfake) does not
// count.
func (b *bench) missing(needs []string) (all []string) {
	for _, name := range needs {
		if a := b.address[name]; a == "" || a == "kfake" {
			all = append(all, name)
		}
	}
	return all
}

// run runs a comparison, closes everything that it opened, and returns the table.
func (b *bench) run(ctx context.Context, c comparison) (t *table, err error) {
	t = &table{comparison: c, machine: machine(), began: time.Now().UTC(), load: load(), fast: b.fast}
	b.say("%s %s ...", c.id, c.name)
	err = c.run(ctx, b, t)
	for _, shut := range slices.Backward(b.closers) {
		err = errors.Join(err, shut())
	}
	t.took = time.Since(t.began)
	b.closers = nil
	return t, err
}

// say logs progress.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.log, format+"\n", args...) }

// later registers a function to call at the end of the run, even after a failure.
func (b *bench) later(do func() error) { b.closers = append(b.closers, do) }

// pick returns full, or fast in a fast run.
func pick[T any](b *bench, full, fast T) T {
	if b.fast {
		return fast
	}
	return full
}

// unique returns a name that is unique on a shared service.
func unique() string { return "cmp" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16] }

// tempDir returns a directory that is removed at the end of the run.
func (b *bench) tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "compare-")
	if err == nil {
		b.later(func() error { return os.RemoveAll(dir) })
	}
	return dir, err
}

// redis returns a client of the shared Redis, and a prefix; keys that contain it are removed at the
// end.
func (b *bench) redis(ctx context.Context) (*redis.Client, string, error) {
	o, err := redis.ParseURL(b.address["redis"])
	if err != nil {
		return nil, "", err
	}
	o.PoolSize = 64
	r, prefix := redis.NewClient(o), unique()
	b.later(func() error { return errors.Join(removeKeys(context.WithoutCancel(ctx), r, prefix), r.Close()) })
	return r, prefix, r.Ping(ctx).Err()
}

func removeKeys(ctx context.Context, r *redis.Client, prefix string) error {
	keys := r.Scan(ctx, 0, "*"+prefix+"*", 10_000).Iterator()
	for keys.Next(ctx) {
		if err := r.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// redisVersion returns the version of the server.
func redisVersion(ctx context.Context, r *redis.Client) string {
	return "Redis " + r.InfoMap(ctx, "server").Val()["Server"]["redis_version"]
}

// mysql returns a pool on a new database, which is dropped at the end. A statement takes one round
// trip, as in SmartDrive.
func (b *bench) mysql(ctx context.Context, connections int) (*sql.DB, error) {
	address, err := b.mysqlDatabase(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := mysqlConfig(address)
	if err != nil {
		return nil, err
	}
	db, err := openMySQL(cfg, connections)
	if err == nil {
		b.later(db.Close)
	}
	return db, err
}

// mysqlDatabase creates a database, which is dropped at the end, and returns its address.
func (b *bench) mysqlDatabase(ctx context.Context) (string, error) {
	at, err := url.Parse(b.address["mysql"])
	if err != nil {
		return "", err
	}
	cfg, err := mysqlConfig(b.address["mysql"])
	if err != nil {
		return "", err
	}
	server, err := openMySQL(cfg, 1)
	if err != nil {
		return "", err
	}
	name := unique()
	if _, err := server.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"); err != nil {
		return "", errors.Join(err, server.Close())
	}
	b.later(func() error {
		_, err := server.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+name)
		return errors.Join(err, server.Close())
	})
	at.Path = "/" + name
	return at.String(), nil
}

// mysqlConfig parses an address of the form mysql://user:password@host:port/database.
func mysqlConfig(address string) (*mysql.Config, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", at.Host, at.User.Username(), strings.Trim(at.Path, "/")
	cfg.Passwd, _ = at.User.Password()
	cfg.Logger = &mysql.NopLogger{} // errors are returned
	cfg.InterpolateParams, cfg.ClientFoundRows, cfg.MultiStatements = true, true, false
	return cfg, nil
}

func openMySQL(cfg *mysql.Config, connections int) (*sql.DB, error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// isDeadlock reports whether a transaction was aborted by a deadlock or lock timeout and may be
// retried.
func isDeadlock(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (e.Number == 1213 || e.Number == 1205)
}

// mysqlVersion returns the name and the version of the server.
func mysqlVersion(ctx context.Context, db *sql.DB) (string, error) {
	var v string
	err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&v)
	if !strings.Contains(v, "MariaDB") {
		v = "MySQL " + v
	}
	return v, err
}

// execAll runs statements one after the other.
func execAll(ctx context.Context, db *sql.DB, statements ...string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(strings.Fields(s)[:3], " "), err)
		}
	}
	return nil
}

// parallel runs do(0) to do(n-1) concurrently and returns the first error.
func parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for i := range n {
		all.Go(func() error { return do(ctx, i) })
	}
	return all.Wait()
}

// percentile returns the p-th percentile. It sorts all.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*p/100)]
}

// milliseconds converts a duration to a table figure.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// machine describes the machine: processors, system and Go version.
func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
		_ = f.Close()
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(fmt.Sprintf("%d × %s, %s %s, %s", runtime.NumCPU(), model, runtime.GOOS, strings.TrimSpace(string(kernel)), runtime.Version()))
}

// moduleVersions returns module paths with the versions in this build. It modifies paths.
func moduleVersions(paths ...string) string {
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
	for i, path := range paths {
		paths[i] = strings.TrimSpace(path + " " + versions[path])
	}
	return strings.Join(paths, ", ")
}

// load returns the load average, or "" if it is unknown.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return strings.Join(fields[:3], " ")
	}
	return ""
}
