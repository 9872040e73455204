package contents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// The triggers write the file of each new or changed row of blobs into copies. They keep still
// where package migrate brings rows: it brings those of copies, too. Where nothing moves any more,
// on a side that was given up, they do nothing.
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

// arm makes the triggers on the primary. To make one waits for the transactions that have used the
// table.
func (c *Copier) arm(ctx context.Context) error {
	return c.change(ctx, func(ctx context.Context, tx *sqldb.Tx, name string) error {
		_, err := tx.Exec(ctx, triggers[name][tx.Dialect()])
		return err
	})
}

// Disarm drops the triggers and the queue from the primary: contents move no more.
func (c *Copier) Disarm(ctx context.Context) error {
	if err := c.disarm(ctx); err != nil {
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

// disarm drops the triggers, and empties the queue: on MySQL some rows at a time, since millions
// take longer than a transaction may last. SQLite gives up the pages of a whole table at once.
func (c *Copier) disarm(ctx context.Context) error {
	if err := c.change(ctx, func(context.Context, *sqldb.Tx, string) error { return nil }); err != nil {
		return err
	}
	const some = 5000 // of one transaction
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

// change drops each trigger and does something in its place. MySQL commits each of these statements
// by itself; they can be repeated.
func (c *Copier) change(ctx context.Context, then func(ctx context.Context, tx *sqldb.Tx, name string) error) error {
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

// queued lists what waits, from a file on.
func (c *Copier) queued(ctx context.Context, after string) ([]string, error) {
	rows, err := c.opt.DB.Query(ctx, "SELECT file FROM copies WHERE file > ? ORDER BY file LIMIT ?", after, pageSize)
	files, err := sqldb.Scan(rows, err, func(file *string, scan func(...any) error) error { return scan(file) })
	if err != nil {
		return nil, fmt.Errorf("list what is to be copied: %w", err)
	}
	return files, nil
}

// Waiting counts what is to be brought to the other side and was not yet.
func (c *Copier) Waiting(ctx context.Context) (n int64, err error) {
	if err = c.opt.DB.QueryRow(ctx, "SELECT COUNT(*) FROM copies").Scan(&n); err != nil {
		return 0, fmt.Errorf("count what is to be copied: %w", err)
	}
	return n, nil
}

// drain brings everything that waits. What fails waits on, and keeps nobody else from being
// brought.
func (c *Copier) drain(ctx context.Context) error {
	var failed error
	size := firstPage // rows between two save points, as in the sweep
	for after := ""; ; {
		files, err := c.queued(ctx, after)
		if err != nil {
			return err
		}
		var page []row
		var done []string // there is nothing to be brought any more
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
		if err := c.forget(ctx, done); err != nil {
			return err
		}
		for len(page) > 0 {
			var done []string
			n, began := min(size, len(page)), time.Now()
			for _, b := range c.bring(ctx, page[:n], 0) {
				switch {
				case b.err != nil:
					failed = b.err
				case b.res.bad != "":
					failed = errors.New(b.res.bad)
				default:
					done = append(done, b.row.content.Name)
				}
			}
			if err := c.forget(ctx, done); err != nil {
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

func (c *Copier) forget(ctx context.Context, files []string) error {
	if len(files) == 0 {
		return nil
	}
	args := make([]any, len(files))
	for i, f := range files {
		args[i] = f
	}
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM copies WHERE file IN ("+sqldb.Marks(len(files))+")", args...)
		if err != nil {
			return fmt.Errorf("forget what was copied: %w", err)
		}
		return nil
	})
}

// behind lists, of what waits, what a side lacks.
func (c *Copier) behind(ctx context.Context, w Which) (lacks []string, err error) {
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

// some names a few of many.
func some(all []string) string {
	if len(all) > 3 {
		return strings.Join(all[:3], ", ") + ", ..."
	}
	return strings.Join(all, ", ")
}
