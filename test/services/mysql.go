package services

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Options configure a server.
type Options struct {
	// Durable syncs each transaction of the database to disk, so that it survives the loss of the
	// machine. Otherwise it survives only the loss of the process, which is faster.
	Durable bool
	// Snapshots makes Redis write snapshots at its default intervals instead of the append-only
	// file.
	Snapshots bool
	// Bound ends the process with its starter; see Server.Bound.
	Bound bool
	// Advertised is the address that a Kafka broker returns to clients, if it is not its own: a
	// proxy's.
	Advertised string
}

// database is MariaDB, or MySQL if found on PATH.
type database struct {
	server  program
	mariadb bool
	durable bool
}

// MySQL returns a database server with data in dir. It must be started.
func (t *Tools) MySQL(ctx context.Context, dir string, o Options) (*Server, error) {
	db := &database{durable: o.Durable}
	var err error
	if db.server, err = t.mysqld(ctx); err != nil {
		return nil, err
	}
	out, err := output(db.server.command("--no-defaults", "--version"))
	db.mariadb = strings.Contains(out, "MariaDB")
	return &Server{Dir: dir, Bound: o.Bound, kind: db}, err
}

// mysqld returns a database server program: MySQL 8, MariaDB 10.6 or later from PATH, or a
// downloaded MariaDB.
func (t *Tools) mysqld(ctx context.Context) (program, error) {
	if path, ok := lookPath("mariadbd", "mysqld"); ok {
		p := program{path: path}
		if p.atLeast(ctx, 8, 0, "--version") == nil { // MySQL 8, or MariaDB 10.6 and later; MariaDB 8 and 9 do not exist
			return p, nil
		}
	}
	root, err := t.debian(ctx, "mariadb", "mariadb-server-core", "mariadb-client-core")
	if err != nil {
		return program{}, fmt.Errorf("mariadbd: %w", err)
	}
	return unpacked(root, "usr/sbin/mariadbd")
}

// ports returns 1.
func (d *database) ports() int { return 1 }

const (
	// mysqlUser is the name and the password of the user with all privileges.
	mysqlUser = "smartdrive"
	grants    = "CREATE DATABASE IF NOT EXISTS smartdrive;\n" +
		"CREATE USER IF NOT EXISTS 'smartdrive'@'%' IDENTIFIED BY 'smartdrive';\n" +
		"GRANT ALL PRIVILEGES ON *.* TO 'smartdrive'@'%' WITH GRANT OPTION;\n"
)

// create initializes the data directory and writes the grants.
func (d *database) create(_ context.Context, s *Server) error {
	if err := os.MkdirAll(s.path("tmp"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("grants.sql"), []byte(grants), 0o600); err != nil {
		return err
	}
	if !d.mariadb {
		return s.run(d.server.command(d.arguments(s, "--initialize-insecure")...))
	}
	install, ok := d.installer()
	if !ok {
		return fmt.Errorf("mariadb-install-db is missing beside %s", d.server.path)
	}
	args := append(d.arguments(s), "--auth-root-authentication-method=normal", "--skip-test-db")
	return s.run(install.command(args...))
}

// installer returns the program that creates the data directory of MariaDB.
func (d *database) installer() (program, bool) {
	p := d.server
	if p.root != "" {
		p.path = filepath.Join(p.root, "usr/bin/mariadb-install-db")
		return p, true
	}
	path, ok := lookPath("mariadb-install-db", "mysql_install_db")
	p.path = path
	return p, ok
}

// arguments returns the arguments common to preparing and running; first come directly after
// --no-defaults.
func (d *database) arguments(s *Server, first ...string) []string {
	args := append([]string{"--no-defaults"}, first...)
	args = append(args, "--datadir="+s.path("data"), "--tmpdir="+s.path("tmp"), "--innodb-log-file-size=50331648")
	if d.server.root != "" {
		args = append(args, "--basedir="+filepath.Join(d.server.root, "usr"))
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

// command returns the command of the server.
func (d *database) command(s *Server) (*exec.Cmd, error) {
	flush, pool := "2", "268435456" // written to the system at each commit, synced once a second
	if d.durable {
		flush, pool = "1", "67108864"
	}
	args := append(d.arguments(s),
		"--port="+s.port(0), "--bind-address="+loopback, "--skip-name-resolve", "--skip-log-bin",
		"--socket=mysqld.sock", "--pid-file=mysqld.pid", // relative to data: a full path may be too long for a socket
		"--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin",
		"--innodb-flush-log-at-trx-commit="+flush, "--innodb-buffer-pool-size="+pool,
		"--max-connections=2000", "--init-file="+s.path("grants.sql"))
	if !d.mariadb {
		args = append(args, "--mysqlx=OFF")
	}
	return d.server.command(args...), nil
}

// ready returns nil when the server answers a ping.
func (d *database) ready(ctx context.Context, s *Server) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = mysqlUser, mysqlUser, "tcp", s.Addr()
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return db.PingContext(ctx)
}

// url returns the data source of the server, without a database.
func (d *database) url(s *Server) string {
	return "mysql://" + mysqlUser + ":" + mysqlUser + "@" + s.Addr() + "/"
}
