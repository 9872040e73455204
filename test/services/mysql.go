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

// Options of a server for one test or for all.
type Options struct {
	// Durable makes the database survive the loss of the machine, not only that of the process, for
	// each transaction. The shared server does without: it is slower, and a killed process loses
	// nothing either way.
	Durable bool
	// Snapshots has a Redis keep snapshots at its default intervals in place of the append-only
	// file.
	Snapshots bool
	// Bound: see Server.
	Bound bool
	// Advertised is the address that a Kafka broker tells clients to use, where that is not its
	// own: a proxy's.
	Advertised string
}

// database is MariaDB, or MySQL where that is what PATH has.
type database struct {
	server  program
	mariadb bool
	durable bool
}

// MySQL returns a database server with its directory.
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

func (t *Tools) mysqld(ctx context.Context) (program, error) {
	if path, ok := lookPath("mariadbd", "mysqld"); ok {
		p := program{path: path}
		if p.atLeast(ctx, 8, 0, "--version") == nil { // MySQL 8, or MariaDB 10.6 and later; there is no MariaDB 8 or 9
			return p, nil
		}
	}
	root, err := t.debian(ctx, "mariadb", "mariadb-server-core", "mariadb-client-core")
	if err != nil {
		return program{}, fmt.Errorf("mariadbd: %w", err)
	}
	return unpacked(root, "usr/sbin/mariadbd")
}

func (d *database) ports() int { return 1 }

const (
	// mysqlUser is the user that may do everything, and its password.
	mysqlUser = "smartdrive"
	grants    = "CREATE DATABASE IF NOT EXISTS smartdrive;\n" +
		"CREATE USER IF NOT EXISTS 'smartdrive'@'%' IDENTIFIED BY 'smartdrive';\n" +
		"GRANT ALL PRIVILEGES ON *.* TO 'smartdrive'@'%' WITH GRANT OPTION;\n"
)

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

// arguments are those that both preparing and serving need.
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

func (d *database) command(s *Server) (*exec.Cmd, error) {
	flush, pool := "2", "268435456" // to the system at each commit, to the disk once a second
	if d.durable {
		flush, pool = "1", "67108864"
	}
	args := append(d.arguments(s),
		"--port="+s.port(0), "--bind-address="+loopback, "--skip-name-resolve", "--skip-log-bin",
		"--socket=mysqld.sock", "--pid-file=mysqld.pid", // below data; a full path may be too long for a socket
		"--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin",
		"--innodb-flush-log-at-trx-commit="+flush, "--innodb-buffer-pool-size="+pool,
		"--max-connections=2000", "--init-file="+s.path("grants.sql"))
	if !d.mariadb {
		args = append(args, "--mysqlx=OFF")
	}
	return d.server.command(args...), nil
}

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

func (d *database) url(s *Server) string {
	return "mysql://" + mysqlUser + ":" + mysqlUser + "@" + s.Addr() + "/"
}
