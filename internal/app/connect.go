package app

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/engine/sqldb"
)

// connect opens what the mode of the installation stands on, and checks it. Whose bytes these are is looked at afterwards.
func (a *App) connect(ctx context.Context) error {
	if a.ownsDatabase() {
		a.marks = directory(a.cfg.Blobs)
		return a.openFile(ctx)
	}
	needed := []component{{"database", a.openServer}}
	if a.cfg.Mode().Many() {
		needed = append(needed, component{"Redis", a.openRedis}, component{"S3", a.openBucket})
	} else {
		a.marks = directory(a.cfg.Blobs)
	}
	if a.cfg.Mode() == config.Cluster {
		needed = append(needed, component{"Kafka", a.checkKafka})
	}
	return startAll(ctx, needed, a.cfg.StartWait, a.log)
}

// openFile opens the SQLite database of the data directory.
func (a *App) openFile(ctx context.Context) (err error) {
	a.db, err = sqldb.Open(ctx, sqldb.Options{
		Path: filepath.Join(a.cfg.Data, databaseFile), Log: a.log, OnFull: func() { dropBallast(a.cfg.Data) },
	})
	return err
}

// openServer opens the database on a server.
func (a *App) openServer(ctx context.Context) error {
	db, err := sqldb.Open(ctx, sqldb.Options{MySQL: databaseURL(a.cfg.MySQL), Connections: a.cfg.MySQL.Connections, Log: a.log})
	if err != nil {
		return err
	}
	asked := time.Now()
	now, err := db.Now(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if skew := now.Std().Sub(asked); skew.Abs() > maxSkew {
		a.log.WarnContext(ctx, "the clock of this machine is off the database's; set it", "by", skew.Round(time.Millisecond))
	}
	a.db = db
	return nil
}

// maxSkew is how far the clock of this machine may be off without a word. Rows, heartbeats and leases go by the database's clock, the
// ends of logins and links by each machine's own.
const maxSkew = 5 * time.Second

func databaseURL(m *config.MySQL) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(m.User, string(m.Password)), Host: m.Addr, Path: "/" + m.Name}
	if m.TLS != "" {
		u.RawQuery = url.Values{"tls": {m.TLS}}.Encode()
	}
	return u.String()
}

// openStorage opens the contents, once it is known that they belong to the database.
func (a *App) openStorage(ctx context.Context) error {
	if a.cfg.Mode().Many() {
		return nil // the bucket was opened to be checked
	}
	return a.openDirectory(ctx)
}
