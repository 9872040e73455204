package sqldb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"example.org/smartdrive/internal/base/drive"
)

//go:embed migrations
var migrations embed.FS

// Migrations returns the migration files, in a directory per dialect.
func Migrations() fs.FS { return migrations }

// The migrations begin with the schema of release 0.1.0. The development versions before it reached
// the same schema by migrations 1 to 119, which no longer exist.
const (
	lastDevelopment = 119 // upgraded by stamp
	baseline        = 120
)

// migrate migrates the schema. Only one process may do so at a time (goose does not lock): the lock
// of the data directory ensures this for SQLite, migrateLocked for MySQL. An existing schema is
// changed through change, which may refuse; nil applies immediately. A schema that this release
// cannot upgrade is left unchanged.
func migrate(ctx context.Context, db *sql.DB, dialect Dialect, change Change) error {
	files, err := fs.Sub(migrations, "migrations/"+dialect.String())
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	engine := database.DialectSQLite3
	if dialect == MySQL {
		engine = database.DialectMySQL
	}
	provider, err := goose.NewProvider(engine, db, files)
	if err != nil {
		return fmt.Errorf("prepare the migrations: %w", err)
	}
	have, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version
	if err := checkVersion(have, newest); err != nil {
		return err
	}
	apply := func() error {
		if have == lastDevelopment {
			if err := stamp(ctx, db); err != nil {
				return err
			}
		}
		if _, err := provider.Up(ctx); err != nil {
			return fmt.Errorf("apply the migrations: %w", err)
		}
		return nil
	}
	if change == nil || have == 0 || have == newest {
		return apply()
	}
	if err := change(ctx, onePool(db, dialect), apply); err != nil {
		return fmt.Errorf("bring the database from format %d to %d: %w", have, newest, err)
	}
	return nil
}

// checkVersion returns an error if have is the schema version of a newer release, or of a
// development version that this release cannot upgrade. Version 0 is an empty database.
func checkVersion(have, known int64) error {
	switch {
	case have > known:
		return fmt.Errorf("the database has format %d and this program knows formats up to %d: use a newer release", have, known)
	case have > 0 && have < lastDevelopment:
		return fmt.Errorf("the database has format %d, of a development version before 0.1.0, and this program upgrades formats from %d on: "+
			"open it once with the last build before 0.1.0, then start this one. Nothing was changed", have, lastDevelopment)
	}
	return nil
}

// stamp records the baseline as applied in a database of version lastDevelopment, in place of the
// migrations that created its schema. Its version table then equals the one of a new database.
func stamp(ctx context.Context, db *sql.DB) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		defer func() { _ = tx.Rollback() }() // without effect after Commit
		_, err = tx.ExecContext(ctx, "DELETE FROM goose_db_version WHERE version_id BETWEEN 1 AND ?", lastDevelopment)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, TRUE)", baseline)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("record the baseline of the schema: %w", classify(err))
	}
	return nil
}

// CheckFormat returns an error if a newer release has changed the schema since Open, if this
// release cannot upgrade the schema, or if the version cannot be read. This process must then stop.
func (db *DB) CheckFormat(ctx context.Context) error {
	_, err := db.HasCurrentFormat(ctx)
	return err
}

// HasCurrentFormat reports whether the schema is of this release, false if it is older. It returns
// an error if a newer release has changed the schema, if this release cannot upgrade it, or if the
// version cannot be read.
func (db *DB) HasCurrentFormat(ctx context.Context) (bool, error) {
	files, err := fs.ReadDir(migrations, "migrations/"+db.Dialect().String())
	if err != nil {
		return false, fmt.Errorf("read the migrations: %w", err)
	}
	known, err := goose.NumericComponent(files[len(files)-1].Name())
	if err != nil {
		return false, fmt.Errorf("read the migrations: %w", err)
	}
	var have int64
	if err := db.QueryRow(ctx, "SELECT MAX(version_id) FROM goose_db_version WHERE is_applied").Scan(&have); err != nil {
		return false, fmt.Errorf("read the schema version: %w", err)
	}
	return have == known, checkVersion(have, known)
}

// onePool returns a DB that uses db for reads and writes. It must not be closed.
func onePool(db *sql.DB, dialect Dialect) *DB {
	one := &DB{engine: &engine{dialect: dialect, reads: db}}
	one.writer = &pool{db: db, stats: &one.stats}
	return one
}

// migrateTime is the time that a starting process waits for another one that migrates.
const migrateTime = 5 * time.Minute

// migrateLocked runs migrate under a named lock of the server, on its own connection. The server
// releases the lock if the process dies. DDL is not transactional, so every migration file can be
// repeated from its start.
func migrateLocked(ctx context.Context, db *sql.DB, name string, change Change) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return classify(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	sum := sha256.Sum256([]byte(name)) // lock names are global to the server and have at most 64 characters
	lock := "smartdrive.migrate." + hex.EncodeToString(sum[:16])
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", lock, int(migrateTime.Seconds())).Scan(&got); err != nil {
		return fmt.Errorf("wait for the lock on the schema: %w", classify(err))
	}
	if got.Int64 != 1 {
		return drive.Wrap(errors.New("another process has been changing the schema for minutes"), drive.Unavailable)
	}
	defer func() {
		_, releaseErr := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", lock)
		err = errors.Join(err, classify(releaseErr))
	}()
	if err := repairVersions(ctx, db); err != nil {
		return err
	}
	return migrate(ctx, db, MySQL, change)
}

// repairVersions inserts the first row of goose's version table if a process died after creating
// the table. goose would fail forever with a missing zero version.
func repairVersions(ctx context.Context, db *sql.DB) error {
	var tables int
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name = 'goose_db_version'`).Scan(&tables)
	if err == nil && tables == 1 {
		_, err = db.ExecContext(ctx, `INSERT INTO goose_db_version (version_id, is_applied)
			SELECT 0, TRUE FROM (SELECT COUNT(*) AS n FROM goose_db_version) AS have WHERE have.n = 0`)
	}
	if err != nil {
		return fmt.Errorf("look at the table of schema versions: %w", classify(err))
	}
	return nil
}
