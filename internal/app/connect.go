package app

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/sqldb"
)

// openFile opens the SQLite database of the data directory into p.db, creating it if needed. A full
// disk later drops the ballast.
func (p *platform) openFile(ctx context.Context) (err error) {
	p.db, err = sqldb.Open(ctx, sqldb.Options{
		Path: filepath.Join(p.cfg.Data, databaseFile), Log: p.log, OnFull: func() { dropBallast(p.cfg.Data) },
	})
	return err
}

// openServer opens the database on a server and warns if its clock differs from this machine's. It
// sets p.db and fails if the server cannot be reached.
func (p *platform) openServer(ctx context.Context) error {
	db, err := sqldb.Open(ctx, sqldb.Options{
		MySQL: databaseURL(p.cfg.MySQL), Connections: p.cfg.MySQL.Connections, Log: p.log, OnSchemaChange: migrateAlone,
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
		p.log.WarnContext(ctx, "this machine's clock differs from the database's; synchronize it", "by", skew.Round(time.Millisecond))
	}
	p.db = db
	return nil
}

// migrateAlone runs apply, which changes the format of the database, while no instance uses the
// database; it fails if one does. An instance of an older release would mistake rows of the new
// format for strays.
func migrateAlone(ctx context.Context, db *sqldb.DB, apply func() error) error {
	return instance.RunExclusive(ctx, db, db.Now, apply)
}

// maxSkew is how far the clock of this machine may differ without a warning. Rows, heartbeats and
// leases use the database's clock; logins and links expire by each machine's own clock.
const maxSkew = 5 * time.Second

// databaseURL returns the mysql:// URL of the settings, including the password.
func databaseURL(m *config.MySQL) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(m.User, string(m.Password)), Host: m.Addr, Path: "/" + m.Name}
	if m.TLS != "" {
		u.RawQuery = url.Values{"tls": {m.TLS}}.Encode()
	}
	return u.String()
}
