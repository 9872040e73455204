package sqldb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Batch says which rows of a table DeleteBatch deletes.
type Batch struct {
	Table string
	Key   string // a column that is its primary key: an integer or text
	Where string // with placeholders for Args
	Order string // which go first: columns; empty: any
	Args  []any
	Limit int
}

// DeleteBatch deletes up to Limit rows, and returns how many. It reads their keys, locking nothing,
// and then deletes by them: a DELETE that finds its rows by a subquery locks every row that it
// looks at on MySQL, and waits for those that others have.
func (tx *Tx) DeleteBatch(ctx context.Context, b Batch) (int64, error) {
	query := "SELECT " + b.Key + " FROM " + b.Table + " WHERE " + b.Where
	if b.Order != "" {
		query += " ORDER BY " + b.Order
	}
	rows, err := tx.Query(ctx, query+" LIMIT ?", append(slices.Clone(b.Args), b.Limit)...)
	keys, err := Scan(rows, err, scanKey)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	slices.SortFunc(keys, compareKeys) // so that two batches lock in the same order
	n, err := tx.Exec(ctx, "DELETE FROM "+b.Table+" WHERE "+b.Key+" IN ("+Marks(len(keys))+") AND ("+b.Where+")",
		slices.Concat(keys, b.Args)...)
	if err != nil {
		return 0, fmt.Errorf("delete from %s: %w", b.Table, err)
	}
	return n, nil
}

// scanKey reads a key as it must be given back: bytes would be compared in another way than text.
func scanKey(key *any, scan func(...any) error) error {
	err := scan(key)
	if b, ok := (*key).([]byte); ok {
		*key = string(b)
	}
	return err
}

func compareKeys(a, b any) int {
	if x, ok := a.(int64); ok {
		y, _ := b.(int64)
		return cmp.Compare(x, y)
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
