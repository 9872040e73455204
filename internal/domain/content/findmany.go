package content

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// FindMany returns the blobs with these ids. Missing blobs are not in the map.
func (c Content) FindMany(ctx context.Context, q sqldb.Querier, ids ...drive.BlobID) (map[drive.BlobID]Blob, error) {
	found := make(map[drive.BlobID]Blob, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM blobs WHERE id IN (`+sqldb.Placeholders(len(ids))+`)`, args(ids)...)
	all, err := sqldb.Scan(rows, err, scanBlob)
	if err != nil {
		return nil, fmt.Errorf("find %d blobs: %w", len(ids), err)
	}
	for _, b := range all {
		found[b.ID] = b
	}
	return found, nil
}

// RefMany adds a reference to several blobs with few statements; an id that occurs several times
// gets as many. gone holds the blobs that do not exist any more and got no reference, which is no
// error. The rows stay locked until tx ends.
func (c Content) RefMany(ctx context.Context, tx *sqldb.Tx, ids ...drive.BlobID) (gone map[drive.BlobID]bool, err error) {
	count := map[drive.BlobID]int{}
	for _, id := range ids {
		count[id]++
	}
	var single, several []drive.BlobID
	for id, n := range count {
		if n == 1 {
			single = append(single, id)
		} else {
			several = append(several, id)
		}
	}
	byID := func(x, y drive.BlobID) int { return bytes.Compare(x[:], y[:]) }
	slices.SortFunc(single, byID)
	slices.SortFunc(several, byID)
	// Lock all rows in the order of ids first, because each of the two statements would have its
	// own order.
	present, err := c.lockMany(ctx, tx, single, several)
	if err != nil {
		return nil, err
	}
	if len(single) > 0 {
		if _, err := tx.Exec(ctx, `UPDATE blobs SET refs = refs + 1 WHERE id IN (`+sqldb.Placeholders(len(single))+`)`, args(single)...); err != nil {
			return nil, fmt.Errorf("reference %d blobs: %w", len(single), err)
		}
	}
	for _, id := range several {
		if _, err := tx.Exec(ctx, `UPDATE blobs SET refs = refs + ? WHERE id = ?`, count[id], id); err != nil {
			return nil, fmt.Errorf("reference blob %s: %w", id, err)
		}
	}
	gone = map[drive.BlobID]bool{}
	for id := range count {
		if !present[id] {
			gone[id] = true
		}
	}
	return gone, nil
}

// lockMany locks the rows of the blobs in lists until tx ends, in the order of their ids, so that
// concurrent calls do not deadlock, and returns which of them exist. Ids that are not in the map
// have no blob.
func (c Content) lockMany(ctx context.Context, tx *sqldb.Tx, lists ...[]drive.BlobID) (map[drive.BlobID]bool, error) {
	ids := slices.Concat(lists...)
	present := make(map[drive.BlobID]bool, len(ids))
	if len(ids) == 0 {
		return present, nil
	}
	rows, err := tx.Query(ctx, `SELECT id FROM blobs WHERE id IN (`+sqldb.Placeholders(len(ids))+`) ORDER BY id`+tx.ForUpdate(), args(ids)...)
	all, err := sqldb.Scan(rows, err, func(id *drive.BlobID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, fmt.Errorf("lock %d blobs: %w", len(ids), err)
	}
	for _, id := range all {
		present[id] = true
	}
	return present, nil
}

// args converts a slice to statement arguments.
func args[T any](all []T) []any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = v
	}
	return out
}
