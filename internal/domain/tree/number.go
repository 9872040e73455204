package tree

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Numeric ids serve protocols whose ids are integers. A node gets one on first use, keeps it for
// life, and no other node ever gets the same one.

// Numbers returns the numeric ids of nodes by node id. A node without one has no entry.
func (r Reader) Numbers(ctx context.Context, q sqldb.Querier, ids []drive.NodeID) (map[drive.NodeID]int64, error) {
	type row struct {
		id drive.NodeID
		n  int64
	}
	found := make(map[drive.NodeID]int64, len(ids))
	for some := range slices.Chunk(ids, idsPerStatement) {
		marks, args := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, "SELECT node_id, number FROM node_numbers WHERE node_id IN ("+marks+")", args...)
		all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.id, &r.n) })
		if err != nil {
			return nil, fmt.Errorf("read the numbers of nodes: %w", err)
		}
		for _, r := range all {
			found[r.id] = r.n
		}
	}
	return found, nil
}

// ByNumber returns the node with a numeric id, or NotFound.
func (r Reader) ByNumber(ctx context.Context, q sqldb.Querier, number int64) (id drive.NodeID, err error) {
	if err = q.QueryRow(ctx, "SELECT node_id FROM node_numbers WHERE number = ?", number).Scan(&id); err != nil {
		err = fmt.Errorf("find the node with the number %d: %w", number, err)
	}
	return id, err
}

// Number assigns numeric ids to existing nodes that have none. Pass some 500 at a time to keep the
// transaction short.
func (t *Tree) Number(ctx context.Context, tx *sqldb.Tx, ids []drive.NodeID) error {
	have, err := t.Numbers(ctx, tx, ids)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id drive.NodeID) bool { return have[id] != 0 })
	if len(ids) == 0 {
		return nil
	}
	there, err := ByID(ctx, t, tx, ids...) // a deleted node must not get a row
	if err != nil {
		return err
	}
	slices.SortFunc(ids, func(x, y drive.NodeID) int { return bytes.Compare(x[:], y[:]) }) // all transactions lock rows in this order
	var rows [][]any
	for _, id := range slices.Compact(ids) {
		if _, ok := there[id]; ok {
			rows = append(rows, []any{id})
		}
	}
	err = tx.InsertRows(ctx, "INSERT INTO node_numbers (node_id)", rows)
	if sqldb.IsDuplicate(err) {
		err = sqldb.Rerun(err)
	}
	if err != nil {
		return fmt.Errorf("number %d nodes: %w", len(rows), err)
	}
	return nil
}

// dropNumbers deletes the rows of node_numbers of permanently deleted nodes; a node without a
// number is ignored. Their numbers no longer resolve.
func dropNumbers(ctx context.Context, tx *sqldb.Tx, gone []Node) error {
	for some := range slices.Chunk(gone, idsPerStatement) {
		ids := make([]drive.NodeID, len(some))
		for i, n := range some {
			ids[i] = n.ID
		}
		marks, args := sqldb.ListArgs(ids)
		if _, err := tx.Exec(ctx, "DELETE FROM node_numbers WHERE node_id IN ("+marks+")", args...); err != nil {
			return fmt.Errorf("forget the numbers of nodes: %w", err)
		}
	}
	return nil
}
