package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/move/contents"
	"example.org/smartdrive/internal/move/migrate"
)

// location is an opened store of contents with its mark. The owner must call close.
type location struct {
	side  contents.Side
	marks markStore
	check func(ctx context.Context) error // Unavailable: it does not respond
	close func() error
}

// Locations are stored as one line of text: a database as its --db URL or the path of its file,
// contents as config.BlobLocation formats them.

// databaseLocation returns the configured database: the absolute path of the SQLite file, or a
// MySQL URL with its password.
func databaseLocation(cfg config.Config) string {
	if cfg.MySQL == nil {
		return absolute(filepath.Join(cfg.Data, databaseFile))
	}
	return databaseURL(cfg.MySQL)
}

// contentsLocation returns the configured store of contents, with its secrets.
func contentsLocation(cfg config.Config) config.BlobLocation {
	if cfg.S3 != nil {
		return config.BlobLocation{S3: cfg.S3, Redis: cfg.Redis}
	}
	return config.BlobLocation{Dir: absolute(cfg.Blobs)}
}

// absolute returns the absolute form of path; path itself if the working directory is unknown.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// showContents formats a store of contents for people, as a directory or
// s3://ENDPOINT/BUCKET/PREFIX, without secrets.
func showContents(c config.BlobLocation) string {
	if c.S3 == nil {
		return c.Dir
	}
	return strings.TrimSuffix("s3://"+c.S3.Endpoint+"/"+c.S3.Bucket+"/"+c.S3.Prefix, "/")
}

// openDatabase opens the database at a location, a MySQL URL or the path of a file, for package
// migrate. Without how.Create a missing file fails with drive.WrongState, as does a malformed URL.
// The caller closes the database.
func (m *mover) openDatabase(ctx context.Context, at string, how migrate.Opening) (*sqldb.DB, error) {
	opt := sqldb.Options{NoForeignKeys: how.Unchecked, ReadOnly: how.ReadOnly, Log: m.log}
	if strings.Contains(at, "://") {
		server, err := config.ParseMySQL(at)
		if err != nil {
			return nil, drive.Wrap(fmt.Errorf("%s: %w", config.RedactLocation(at), err), drive.WrongState)
		}
		opt.MySQL, opt.Connections = databaseURL(server), server.Connections
		if how.Unchecked {
			opt.Connections = copyConnections
		}
	} else {
		opt.Path = at
		if how.Create {
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				return nil, drive.Wrap(fmt.Errorf("make the data directory: %w", err), drive.WrongState)
			}
		} else if _, err := os.Stat(at); err != nil {
			return nil, drive.Wrap(fmt.Errorf("open the database: %w", err), drive.WrongState)
		}
	}
	return sqldb.Open(ctx, opt)
}

// copyConnections suffice for copying rows: one batch at a time, and a few small writes.
const copyConnections = 4

// databaseTarget returns the location of a new database that an administrator named by URL or by
// the absolute path of a data directory.
func databaseTarget(text string) string {
	if text == "" || strings.Contains(text, "://") {
		return text
	}
	return filepath.Join(text, databaseFile)
}

// openContents opens a second store of contents. It locks a directory, unless it is this process's
// own, so that no server can start with it. The caller must call close. It fails with LockedError
// if a server uses the directory.
func (m *mover) openContents(ctx context.Context, c config.BlobLocation) (location, error) {
	if c.S3 != nil {
		return m.openSecondBucket(c)
	}
	var lock *os.File
	if c.Dir != absolute(m.cfg.Data) {
		var err error
		if lock, err = lockDir(c.Dir); err != nil {
			return location{}, drive.Wrap(err, drive.WrongState)
		}
	}
	dir, err := local.Open(ctx, local.Options{Dir: c.Dir, Durability: durability(m.cfg), Log: m.log})
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return location{}, drive.Wrap(err, drive.WrongState)
	}
	return location{
		side:  contents.Side{Name: showContents(c), Store: dir.Blobs, Staging: dir.Staging, Quarantine: dir.Quarantine},
		marks: directoryMarks(c.Dir), check: func(context.Context) error { return nil },
		close: func() error {
			err := dir.Close()
			if lock != nil {
				err = errors.Join(err, lock.Close())
			}
			return err
		},
	}, nil
}

// durability converts the setting to the type of package local. Any value but config.DurabilityPart
// means DurabilityProcess.
func durability(cfg config.Config) local.Durability {
	if cfg.Durability == config.DurabilityPart {
		return local.DurabilityPart
	}
	return local.DurabilityProcess
}

// openSecondBucket opens a bucket as a second store of contents. The caller calls check and close.
// It fails only for invalid settings, because it sends no request.
func (m *mover) openSecondBucket(c config.BlobLocation) (location, error) {
	journal := journalClient(c.Redis)
	b, err := s3.New(bucketOptions(m.cfg, m.log, c, journal))
	if err != nil {
		return location{}, errors.Join(err, journal.Close())
	}
	check := func(ctx context.Context) error {
		if err := journal.Ping(ctx).Err(); err != nil {
			return drive.Wrap(fmt.Errorf("redis: %w", err), drive.Unavailable)
		}
		return b.Check(ctx)
	}
	return location{
		side:  contents.Side{Name: showContents(c), Store: b.Blobs, Staging: b.Staging, Quarantine: b.Quarantine},
		marks: bucketMarks{b}, check: check, close: journal.Close,
	}, nil
}

// mirroredMarks writes the mark of a migrating installation to both stores. It reads the leading
// side's mark. A failed write to the follower is only reported, and repeated before the follower
// leads.
type mirroredMarks struct {
	markStore
	follower     markStore
	reportFailed func(error)
}

// WriteMark writes the mark to the follower and then to the leading store. A failure of the
// follower is reported, not returned.
func (t mirroredMarks) WriteMark(ctx context.Context, m blob.Mark) error {
	if err := t.follower.WriteMark(ctx, m); err != nil {
		t.reportFailed(err)
	}
	return t.markStore.WriteMark(ctx, m)
}
