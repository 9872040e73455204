package contents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// triggers are the statements by trigger name. They insert the file of each new or changed row of
// blobs into copies. They ignore rows written by package migrate, which also replicates copies, and
// do nothing on a side without a migration.
var triggers = map[string]map[sqldb.Dialect]string{
	"copies_ins_blobs": {
		sqldb.SQLite: `CREATE TRIGGER copies_ins_blobs AFTER INSERT ON blobs WHEN EXISTS (SELECT 1 FROM migration_side WHERE contents <> '' AND applying = 0)
			BEGIN INSERT OR IGNORE INTO copies (file) VALUES (NEW.file); END`,
		sqldb.MySQL: `CREATE TRIGGER copies_ins_blobs AFTER INSERT ON blobs FOR EACH ROW
			BEGIN IF @@foreign_key_checks = 1 AND EXISTS (SELECT 1 FROM migration_side WHERE contents <> '') THEN INSERT IGNORE INTO copies (file) VALUES (NEW.file); END IF; END`,
	},
	"copies_upd_blobs": {
		sqldb.SQLite: `CREATE TRIGGER copies_upd_blobs AFTER UPDATE OF file ON blobs
			WHEN NEW.file <> OLD.file AND EXISTS (SELECT 1 FROM migration_side WHERE contents <> '' AND applying = 0)
			BEGIN INSERT OR IGNORE INTO copies (file) VALUES (NEW.file); END`,
		sqldb.MySQL: `CREATE TRIGGER copies_upd_blobs AFTER UPDATE ON blobs FOR EACH ROW
			BEGIN IF NEW.file <> OLD.file AND @@foreign_key_checks = 1 AND EXISTS (SELECT 1 FROM migration_side WHERE contents <> '') THEN INSERT IGNORE INTO copies (file) VALUES (NEW.file); END IF; END`,
	},
}

// createTriggers creates the triggers on the primary. Each statement waits for transactions that
// have used the table.
func (c *Copier) createTriggers(ctx context.Context) error {
	return c.replaceTriggers(ctx, func(ctx context.Context, tx *sqldb.Tx, name string) error {
		_, err := tx.Exec(ctx, triggers[name][tx.Dialect()])
		return err
	})
}

// StopCapture ends the recording of new contents, when contents no longer move: it drops the
// triggers, the queue and the state of the sweep on the primary. It may be called again after an
// error.
func (c *Copier) StopCapture(ctx context.Context) error {
	if err := c.dropCapture(ctx); err != nil {
		return err
	}
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM meta WHERE name = '"+metaSweep+"'")
		if err != nil {
			return fmt.Errorf("forget how far contents were copied: %w", err)
		}
		return nil
	})
}

// dropCapture drops the triggers and empties the queue, on MySQL in short transactions. SQLite
// empties a whole table quickly.
func (c *Copier) dropCapture(ctx context.Context) error {
	if err := c.replaceTriggers(ctx, func(context.Context, *sqldb.Tx, string) error { return nil }); err != nil {
		return err
	}
	const some = 5000 // per transaction
	query, args := "DELETE FROM copies LIMIT ?", []any{some}
	if c.opt.DB.Dialect() == sqldb.SQLite {
		query, args = "DELETE FROM copies", nil
	}
	for n := int64(some); n == some; {
		err := c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.Exec(ctx, query, args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("forget what was to be copied: %w", err)
		}
	}
	return nil
}

// replaceTriggers drops each trigger and calls then in the same transaction. It is idempotent,
// because MySQL commits each of these statements separately.
func (c *Copier) replaceTriggers(ctx context.Context, then func(ctx context.Context, tx *sqldb.Tx, name string) error) error {
	for name := range triggers {
		err := c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, "DROP TRIGGER IF EXISTS "+name); err != nil {
				return err
			}
			return then(ctx, tx, name)
		})
		if err != nil {
			return fmt.Errorf("make the trigger %s: %w", name, err)
		}
	}
	return nil
}

// queued returns up to pageSize names of the queue in order, after the name after; "" starts at the
// first. An empty result is the end.
func (c *Copier) queued(ctx context.Context, after string) ([]string, error) {
	rows, err := c.opt.DB.Query(ctx, "SELECT file FROM copies WHERE file > ? ORDER BY file LIMIT ?", after, pageSize)
	files, err := sqldb.Scan(rows, err, func(file *string, scan func(...any) error) error { return scan(file) })
	if err != nil {
		return nil, fmt.Errorf("list what is to be copied: %w", err)
	}
	return files, nil
}

// Queued returns the number of contents in the queue. It scans the table.
func (c *Copier) Queued(ctx context.Context) (n int64, err error) {
	if err = c.opt.DB.QueryRow(ctx, "SELECT COUNT(*) FROM copies").Scan(&n); err != nil {
		return 0, fmt.Errorf("count what is to be copied: %w", err)
	}
	return n, nil
}

// drain syncs all contents in the queue. Failed contents stay and block no others; drain returns
// the last failure.
func (c *Copier) drain(ctx context.Context) error {
	var failed error
	size := firstPage // rows between two deletions from the queue, adapted as in the sweep
	for after := ""; ; {
		files, err := c.queued(ctx, after)
		if err != nil {
			return err
		}
		var page []row
		var done []string // rows that are gone need no copy
		for _, file := range files {
			r, found, err := c.find(ctx, file)
			if err != nil {
				return err
			}
			if found {
				page = append(page, r)
			} else {
				done = append(done, file)
			}
		}
		if err := c.dequeue(ctx, done); err != nil {
			return err
		}
		for len(page) > 0 {
			var done []string
			n, began := min(size, len(page)), time.Now()
			for _, b := range c.syncPage(ctx, page[:n], 0) {
				switch {
				case b.err != nil:
					failed = b.err
				case b.res.bad != "":
					failed = errors.New(b.res.bad)
				default:
					done = append(done, b.row.content.Name)
				}
			}
			if err := c.dequeue(ctx, done); err != nil {
				return err
			}
			page, size = page[n:], nextPage(size, time.Since(began))
		}
		if len(files) < pageSize {
			return failed
		}
		after = files[len(files)-1]
	}
}

// dequeue deletes names from the queue in one transaction. Names that are not queued, and no names,
// are no error.
func (c *Copier) dequeue(ctx context.Context, files []string) error {
	if len(files) == 0 {
		return nil
	}
	args := make([]any, len(files))
	for i, f := range files {
		args[i] = f
	}
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM copies WHERE file IN ("+sqldb.Placeholders(len(files))+")", args...)
		if err != nil {
			return fmt.Errorf("forget what was copied: %w", err)
		}
		return nil
	})
}

// lackedBy returns the queued contents that have a row and that side w lacks: all, or at least the
// first pageSize of them. It fails if the side does not answer.
func (c *Copier) lackedBy(ctx context.Context, w SideIndex) (lacks []string, err error) {
	for after := ""; ; {
		files, err := c.queued(ctx, after)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			_, found, err := c.find(ctx, file)
			if err == nil && found {
				if _, err = c.opt.Pair.Side(w).Store.Stat(ctx, file); drive.IsKind(err, drive.NotFound) {
					lacks, err = append(lacks, file), nil
				}
			}
			if err != nil {
				return nil, err
			}
		}
		if len(files) < pageSize || len(lacks) > pageSize {
			return lacks, nil
		}
		after = files[len(files)-1]
	}
}

// firstNames returns the first three names as text.
func firstNames(all []string) string {
	if len(all) > 3 {
		return strings.Join(all[:3], ", ") + ", ..."
	}
	return strings.Join(all, ", ")
}
