package sqldb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Batch selects the rows that DeleteBatch deletes.
type Batch struct {
	Table string
	Key   string // the primary key column: integer or text
	Where string // with placeholders for Args
	Order string // ORDER BY columns: which rows go first; empty: any
	Args  []any  // of Where
	Limit int    // maximum number of deleted rows
}

// DeleteBatch deletes up to Limit rows and returns their number; rows that changed between the two
// steps stay. It first reads the keys without locks, then deletes by key. On MySQL, a DELETE with a
// subquery would lock every row that it examines and wait for locked ones.
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
	slices.SortFunc(keys, compareKeys) // two concurrent batches must lock in the same order
	n, err := tx.Exec(ctx, "DELETE FROM "+b.Table+" WHERE "+b.Key+" IN ("+Placeholders(len(keys))+") AND ("+b.Where+")",
		slices.Concat(keys, b.Args)...)
	if err != nil {
		return 0, fmt.Errorf("delete from %s: %w", b.Table, err)
	}
	return n, nil
}

// scanKey reads a key into *key as an int64 or a string; a []byte is converted, because MySQL
// compares it differently as an argument.
func scanKey(key *any, scan func(...any) error) error {
	err := scan(key)
	if b, ok := (*key).([]byte); ok {
		*key = string(b)
	}
	return err
}

// compareKeys orders keys: integers by value, others as text.
func compareKeys(a, b any) int {
	if x, ok := a.(int64); ok {
		y, _ := b.(int64)
		return cmp.Compare(x, y)
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
