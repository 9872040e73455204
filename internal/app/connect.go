package app

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/engine/instance"
	"smartdrive/internal/engine/sqldb"
)

// openFile opens the SQLite database of the data directory.
func (g *ground) openFile(ctx context.Context) (err error) {
	g.db, err = sqldb.Open(ctx, sqldb.Options{
		Path: filepath.Join(g.cfg.Data, databaseFile), Log: g.log, OnFull: func() { dropBallast(g.cfg.Data) },
	})
	return err
}

// openServer opens the database on a server.
func (g *ground) openServer(ctx context.Context) error {
	db, err := sqldb.Open(ctx, sqldb.Options{
		MySQL: databaseURL(g.cfg.MySQL), Connections: g.cfg.MySQL.Connections, Log: g.log, Change: alone,
	})
	if err != nil {
		return err
	}
	asked := time.Now()
	now, err := db.Now(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if skew := now.Std().Sub(asked); skew.Abs() > maxSkew {
		g.log.WarnContext(ctx, "the clock of this machine is off the database's; set it", "by", skew.Round(time.Millisecond))
	}
	g.db = db
	return nil
}

// alone changes the format of the database once nobody uses it: whoever has opened it in an older
// release does not know what a newer one stores, and takes it for strays.
func alone(ctx context.Context, db *sqldb.DB, apply func() error) error {
	return instance.Between(ctx, db, db.Now, apply)
}

// maxSkew is how far the clock of this machine may be off without a word. Rows, heartbeats and
// leases go by the database's clock, the ends of logins and links by each machine's own.
const maxSkew = 5 * time.Second

func databaseURL(m *config.MySQL) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(m.User, string(m.Password)), Host: m.Addr, Path: "/" + m.Name}
	if m.TLS != "" {
		u.RawQuery = url.Values{"tls": {m.TLS}}.Encode()
	}
	return u.String()
}
