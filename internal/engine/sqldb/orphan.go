package sqldb

import (
	"context"
	"fmt"
	"sync"
)

// Orphans deletes the rows of a table whose owner no longer exists. It scans the table by primary
// key in pages outside of transactions. Each call examines at most PerRun rows and continues where
// the last call stopped: ten million rows take 50 calls of a second. The position is kept per
// process and not stored. It is safe for concurrent use.
type Orphans struct {
	Table      string
	Key        string // the primary key, of type text
	Owner      string // the column with the owner's id
	OwnerTable string // the table of owners; its key is id
	// PerRun bounds the rows examined per call. Default 200,000.
	PerRun int

	mu    sync.Mutex
	after string // last examined key
}

const (
	orphanRun  = 200_000 // rows examined per call of Delete, at most
	orphanPage = 1000    // rows per statement, which takes some ms
)

// Delete examines the next rows and returns the number of deleted ones. It can be interrupted and
// may run concurrently.
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
		n, err := o.deletePage(ctx, db, page)
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

// ownedRow is the key of a row of the table that Orphans cleans, and whether its owner is missing.
type ownedRow struct {
	key    string
	orphan bool // the owner does not exist
}

// orphanCondition returns the condition for rows without an owner.
func (o *Orphans) orphanCondition() string {
	return "NOT EXISTS (SELECT 1 FROM " + o.OwnerTable + " WHERE " + o.OwnerTable + ".id = " + o.Table + "." + o.Owner + ")"
}

// page reads up to limit rows whose key is greater than after, in the order of the key, with the
// information whether the owner of the row is missing. An empty page means that the table has
// ended.
func (o *Orphans) page(ctx context.Context, db *DB, after string, limit int) ([]ownedRow, error) {
	rows, err := db.Query(ctx, "SELECT "+o.Key+", "+o.orphanCondition()+" FROM "+o.Table+" WHERE "+o.Key+" > ? ORDER BY "+o.Key+" LIMIT ?", after, limit)
	return Scan(rows, err, func(row *ownedRow, scan func(...any) error) error { return scan(&row.key, &row.orphan) })
}

// deletePage deletes the orphans of a page and checks again that they have no owner: during a move,
// the page may come from a database without the new owner.
func (o *Orphans) deletePage(ctx context.Context, db *DB, page []ownedRow) (n int64, err error) {
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
		n, err = tx.Exec(ctx, "DELETE FROM "+o.Table+" WHERE "+o.Key+" IN ("+Placeholders(len(keys))+") AND "+o.orphanCondition(), keys...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete rows of %s without an owner: %w", o.Table, err)
	}
	return n, nil
}
