package sqldb

import (
	"context"
	"fmt"
	"sync"
)

// Orphans deletes the rows of a table whose owner is not there any more. Nothing tells which they
// are, so it goes over the table by its primary key, reading pages outside of any transaction, at
// most PerRun rows in a call, and goes on there with the next call: ten million rows take 50 calls
// of a second. How far it came is forgotten with the process, and each process has its own. It is
// safe for concurrent use.
type Orphans struct {
	Table string
	Key   string // its primary key, of text
	Owner string // the column that names the owner
	Of    string // the table of the owners; its key is id
	// PerRun is how many rows one call looks at. Default: 200,000.
	PerRun int

	mu    sync.Mutex
	after string // the last key that was looked at; guarded by mu
}

const (
	orphanRun  = 200_000
	orphanPage = 1000 // rows that one statement looks at: some ms
)

// Delete looks at the next rows, and returns how many it has deleted. It may stop anywhere, and run
// twice.
func (o *Orphans) Delete(ctx context.Context, db *DB) (deleted int64, err error) {
	o.mu.Lock()
	after := o.after
	o.mu.Unlock()
	per := o.PerRun
	if per == 0 {
		per = orphanRun
	}
	for seen := 0; seen < per; {
		page, err := o.page(ctx, db, after, min(orphanPage, per-seen))
		if err != nil {
			return deleted, fmt.Errorf("look for rows of %s without an owner: %w", o.Table, err)
		}
		n, err := o.drop(ctx, db, page)
		if err != nil {
			return deleted, err
		}
		deleted += n
		if len(page) < min(orphanPage, per-seen) {
			after = ""
			break
		}
		seen += len(page)
		after = page[len(page)-1].key
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.after = after
	return deleted, nil
}

// owned is a row, and whether its owner is there.
type owned struct {
	key    string
	orphan bool
}

func (o *Orphans) without() string {
	return "NOT EXISTS (SELECT 1 FROM " + o.Of + " WHERE " + o.Of + ".id = " + o.Table + "." + o.Owner + ")"
}

func (o *Orphans) page(ctx context.Context, db *DB, after string, limit int) ([]owned, error) {
	rows, err := db.Query(ctx, "SELECT "+o.Key+", "+o.without()+" FROM "+o.Table+" WHERE "+o.Key+" > ? ORDER BY "+o.Key+" LIMIT ?", after, limit)
	return Scan(rows, err, func(row *owned, scan func(...any) error) error { return scan(&row.key, &row.orphan) })
}

// drop deletes those of a page that have no owner now, either: the page may come from a side of a
// move that has not got it yet.
func (o *Orphans) drop(ctx context.Context, db *DB, page []owned) (n int64, err error) {
	var keys []any
	for _, row := range page {
		if row.orphan {
			keys = append(keys, row.key)
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	err = db.Write(ctx, func(ctx context.Context, tx *Tx) (err error) {
		n, err = tx.Exec(ctx, "DELETE FROM "+o.Table+" WHERE "+o.Key+" IN ("+Marks(len(keys))+") AND "+o.without(), keys...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete rows of %s without an owner: %w", o.Table, err)
	}
	return n, nil
}
