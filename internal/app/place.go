package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/local"
	"smartdrive/internal/engine/blob/s3"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/move/contents"
	"smartdrive/internal/move/migrate"
)

// place is where contents may be, open.
type place struct {
	side  contents.Side
	marks marks
	check func(ctx context.Context) error // Unavailable: it does not answer
	close func() error
}

// Places are named in one line of text: a database as --db does, or by the path of its file;
// contents as config.Contents says.

// databasePlace is the configured database.
func databasePlace(cfg config.Config) string {
	if cfg.MySQL == nil {
		return absolute(filepath.Join(cfg.Data, databaseFile))
	}
	return databaseURL(cfg.MySQL)
}

// contentsPlace is where contents are configured to be.
func contentsPlace(cfg config.Config) config.Contents {
	if cfg.S3 != nil {
		return config.Contents{S3: cfg.S3, Redis: cfg.Redis}
	}
	return config.Contents{Dir: absolute(cfg.Blobs)}
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// showContents is a place of contents for people.
func showContents(c config.Contents) string {
	if c.S3 == nil {
		return c.Dir
	}
	return strings.TrimSuffix("s3://"+c.S3.Endpoint+"/"+c.S3.Bucket+"/"+c.S3.Prefix, "/")
}

// openDatabase opens a database by its place; package migrate asks for it.
func (m *mover) openDatabase(ctx context.Context, at string, how migrate.Opening) (*sqldb.DB, error) {
	opt := sqldb.Options{Unchecked: how.Unchecked, Look: how.Look, Log: m.log}
	if strings.Contains(at, "://") {
		server, err := config.ParseMySQL(at)
		if err != nil {
			return nil, drive.Wrap(fmt.Errorf("%s: %w", config.Shown(at), err), drive.WrongState)
		}
		opt.MySQL, opt.Connections = databaseURL(server), server.Connections
		if how.Unchecked {
			opt.Connections = bringConnections
		}
	} else {
		opt.Path = at
		if how.Make {
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				return nil, drive.Wrap(fmt.Errorf("make the data directory: %w", err), drive.WrongState)
			}
		} else if _, err := os.Stat(at); err != nil {
			return nil, drive.Wrap(fmt.Errorf("open the database: %w", err), drive.WrongState)
		}
	}
	return sqldb.Open(ctx, opt)
}

// bringConnections are for bringing rows to a side: one batch at a time, and a few small writes
// beside it.
const bringConnections = 4

// databaseTarget is what an administrator names as the new database: a URL, or a data directory,
// absolute.
func databaseTarget(text string) string {
	if text == "" || strings.Contains(text, "://") {
		return text
	}
	return filepath.Join(text, databaseFile)
}

// openContents opens a second place for contents. A directory is locked, unless it is one of this
// process anyway: whoever would start with it must wait.
func (m *mover) openContents(ctx context.Context, c config.Contents) (place, error) {
	if c.S3 != nil {
		return m.openSecondBucket(c)
	}
	var lock *os.File
	if c.Dir != absolute(m.cfg.Data) {
		var err error
		if lock, err = lockDir(c.Dir); err != nil {
			return place{}, drive.Wrap(err, drive.WrongState)
		}
	}
	dir, err := local.Open(ctx, local.Options{Dir: c.Dir, Durability: durability(m.cfg), Log: m.log})
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return place{}, drive.Wrap(err, drive.WrongState)
	}
	return place{
		side:  contents.Side{Name: showContents(c), Store: dir.Blobs, Staging: dir.Staging, Quarantine: dir.Quarantine},
		marks: directory(c.Dir), check: func(context.Context) error { return nil },
		close: func() error {
			err := dir.Close()
			if lock != nil {
				err = errors.Join(err, lock.Close())
			}
			return err
		},
	}, nil
}

func durability(cfg config.Config) local.Durability {
	if cfg.Durability == config.DurabilityPart {
		return local.Part
	}
	return local.Process
}

func (m *mover) openSecondBucket(c config.Contents) (place, error) {
	journal := journalClient(c.Redis)
	b, err := s3.New(bucketOptions(m.cfg, m.log, c, journal))
	if err != nil {
		return place{}, errors.Join(err, journal.Close())
	}
	check := func(ctx context.Context) error {
		if err := journal.Ping(ctx).Err(); err != nil {
			return drive.Wrap(fmt.Errorf("redis: %w", err), drive.Unavailable)
		}
		return b.Check(ctx)
	}
	return place{
		side:  contents.Side{Name: showContents(c), Store: b.Blobs, Staging: b.Staging, Quarantine: b.Quarantine},
		marks: inBucket{b}, check: check, close: journal.Close,
	}, nil
}

// twoMarks keeps the mark of an installation whose contents move beside both. The side that leads
// says what is true; the other one's is written as far as that goes, and again when it is to lead.
type twoMarks struct {
	marks
	follower marks
	failed   func(error)
}

// WriteMark implements marks.
func (t twoMarks) WriteMark(ctx context.Context, m blob.Mark) error {
	if err := t.follower.WriteMark(ctx, m); err != nil {
		t.failed(err)
	}
	return t.marks.WriteMark(ctx, m)
}
