package space

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Numbers assigns integer ids to shares, for protocols that require them. A role at a node, or a
// link, gets one on first use and keeps it until it ends. Numbers are never reused. It is safe for
// concurrent use.
type Numbers struct {
	db *sqldb.DB

	mu    sync.Mutex
	after int64 // last number that Purge has checked; guarded by mu
}

// NewNumbers returns the Numbers in db.
func NewNumbers(db *sqldb.DB) *Numbers { return &Numbers{db: db} }

// NumberedShare identifies a share, of a role or by a link, that clients know by a number.
type NumberedShare struct {
	Node    drive.NodeID
	Subject string // id of the principal with a role there, or of a link
}

const (
	numbersAtOnce = 500     // per statement and transaction
	numbersPerRun = 200_000 // numbers that one call of Purge checks
)

// Of returns the number of each of the shares and assigns, permanently, numbers to those that have
// none. It does not check that the shares exist.
func (n *Numbers) Of(ctx context.Context, all []NumberedShare) (map[NumberedShare]int64, error) {
	found := make(map[NumberedShare]int64, len(all))
	for some := range slices.Chunk(all, numbersAtOnce) {
		if err := n.read(ctx, n.db, some, found); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(some, func(of NumberedShare) bool { return found[of] == 0 }) {
			continue
		}
		err := n.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return n.assign(ctx, tx, some) })
		if err == nil {
			err = n.read(ctx, n.db, some, found)
		}
		if err != nil {
			return nil, fmt.Errorf("number %d shares: %w", len(some), err)
		}
	}
	return found, nil
}

// read adds the existing numbers of shares to found. Shares without a number are not added.
func (n *Numbers) read(ctx context.Context, q sqldb.Querier, all []NumberedShare, found map[NumberedShare]int64) error {
	type row struct {
		of     NumberedShare
		number int64
	}
	wanted := make(map[NumberedShare]bool, len(all))
	var nodes []drive.NodeID
	for _, of := range all {
		wanted[of] = true
		nodes = append(nodes, of.Node)
	}
	// Selects by node only: with two lists a database checks each pair or scans the table.
	marks, args := sqldb.ListArgs(nodes)
	rows, err := q.Query(ctx, "SELECT node_id, subject, number FROM share_numbers WHERE node_id IN ("+marks+")", args...)
	read, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.of.Node, &r.of.Subject, &r.number) })
	if err != nil {
		return fmt.Errorf("read the numbers of shares: %w", err)
	}
	for _, r := range read {
		if wanted[r.of] {
			found[r.of] = r.number
		}
	}
	return nil
}

// assign inserts, within tx, numbers for the shares that have none; the database chooses them. If
// another transaction was first, its error makes tx run again.
func (n *Numbers) assign(ctx context.Context, tx *sqldb.Tx, all []NumberedShare) error {
	have := map[NumberedShare]int64{}
	if err := n.read(ctx, tx, all, have); err != nil {
		return err
	}
	lack := slices.DeleteFunc(slices.Clone(all), func(of NumberedShare) bool { return have[of] != 0 })
	slices.SortFunc(lack, func(a, b NumberedShare) int { // all transactions lock rows in this order
		return cmp.Or(cmp.Compare(a.Node.String(), b.Node.String()), cmp.Compare(a.Subject, b.Subject))
	})
	var rows [][]any
	for _, of := range slices.Compact(lack) {
		rows = append(rows, []any{of.Node, of.Subject})
	}
	err := tx.InsertRows(ctx, "INSERT INTO share_numbers (node_id, subject)", rows)
	if sqldb.IsDuplicate(err) {
		err = sqldb.Rerun(err)
	}
	return err
}

// Find returns the share with a number, or NotFound. The caller checks that the share still exists
// and who may see it.
func (n *Numbers) Find(ctx context.Context, number int64) (of NumberedShare, err error) {
	err = n.db.QueryRow(ctx, "SELECT node_id, subject FROM share_numbers WHERE number = ?", number).Scan(&of.Node, &of.Subject)
	if err != nil {
		err = fmt.Errorf("find the share with the number %d: %w", number, err)
	}
	return of, err
}

// endedWhere is an SQL condition: the share of a row of share_numbers has ended.
const endedWhere = `NOT EXISTS (SELECT 1 FROM grants g WHERE g.node_id = share_numbers.node_id AND g.principal_id = share_numbers.subject)
	AND NOT EXISTS (SELECT 1 FROM shares s WHERE s.id = share_numbers.subject)`

// Purge deletes the numbers of ended roles and links. It checks a bounded range of numbers per call
// and continues there next time. A role given again before its number is deleted keeps the number.
func (n *Numbers) Purge(ctx context.Context) error {
	type row struct {
		number int64
		over   bool
	}
	n.mu.Lock()
	after := n.after
	n.mu.Unlock()
	for seen := 0; seen < numbersPerRun; {
		rows, err := n.db.Query(ctx, "SELECT number, "+endedWhere+" FROM share_numbers WHERE number > ? ORDER BY number LIMIT ?", after, numbersAtOnce)
		page, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.number, &r.over) })
		if err != nil {
			return fmt.Errorf("look for numbers of shares that have ended: %w", err)
		}
		var drop []int64
		for _, r := range page {
			if r.over {
				drop = append(drop, r.number)
			}
		}
		if err := n.deleteEnded(ctx, drop); err != nil {
			return err
		}
		seen += len(page)
		if len(page) < numbersAtOnce {
			after = 0
			break
		}
		after = page[len(page)-1].number
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.after = after
	return nil
}

// deleteEnded deletes those of numbers whose share has ended, and keeps those whose share exists
// again. It checks this in the deleting statement.
func (n *Numbers) deleteEnded(ctx context.Context, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	err := n.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		marks, args := sqldb.ListArgs(numbers)
		_, err := tx.Exec(ctx, "DELETE FROM share_numbers WHERE number IN ("+marks+") AND "+endedWhere, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop %d numbers of shares: %w", len(numbers), err)
	}
	return nil
}
