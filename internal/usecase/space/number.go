package space

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Numbers give what is shared integers, for protocols whose ids of shares are integers. A role at a
// node, or a link to it, has none until somebody asks; then it keeps it for as long as it lasts,
// and no other one ever gets it. It is safe for concurrent use.
type Numbers struct {
	db *sqldb.DB

	mu    sync.Mutex
	after int64 // the last number that Purge has looked at; guarded by mu
}

// NewNumbers returns the numbers of a database.
func NewNumbers(db *sqldb.DB) *Numbers { return &Numbers{db: db} }

// Numbered is what a number stands for.
type Numbered struct {
	Node    drive.NodeID
	Subject string // the id of the principal who has a role there, or that of a link
}

const (
	numbersAtOnce = 500     // that one statement reads, and one transaction gives
	numbersPerRun = 200_000 // that one call of Purge looks at
)

// Of returns the numbers of shares that there are; those that have none get one.
func (n *Numbers) Of(ctx context.Context, all []Numbered) (map[Numbered]int64, error) {
	found := make(map[Numbered]int64, len(all))
	for some := range slices.Chunk(all, numbersAtOnce) {
		if err := n.read(ctx, n.db, some, found); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(some, func(of Numbered) bool { return found[of] == 0 }) {
			continue
		}
		err := n.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return n.give(ctx, tx, some) })
		if err == nil {
			err = n.read(ctx, n.db, some, found)
		}
		if err != nil {
			return nil, fmt.Errorf("number %d shares: %w", len(some), err)
		}
	}
	return found, nil
}

// read adds to found the numbers that there are.
func (n *Numbers) read(ctx context.Context, q sqldb.Querier, all []Numbered, found map[Numbered]int64) error {
	type row struct {
		of     Numbered
		number int64
	}
	wanted := make(map[Numbered]bool, len(all))
	var nodes []drive.NodeID
	for _, of := range all {
		wanted[of] = true
		nodes = append(nodes, of.Node)
	}
	// By nodes alone: of two lists a server looks at each pair, or gives up and reads the table.
	marks, args := sqldb.In(nodes)
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

// give gives numbers to those that have none.
func (n *Numbers) give(ctx context.Context, tx *sqldb.Tx, all []Numbered) error {
	have := map[Numbered]int64{}
	if err := n.read(ctx, tx, all, have); err != nil {
		return err
	}
	lack := slices.DeleteFunc(slices.Clone(all), func(of Numbered) bool { return have[of] != 0 })
	slices.SortFunc(lack, func(a, b Numbered) int { // rows are locked in one order
		return cmp.Or(cmp.Compare(a.Node.String(), b.Node.String()), cmp.Compare(a.Subject, b.Subject))
	})
	var rows [][]any
	for _, of := range slices.Compact(lack) {
		rows = append(rows, []any{of.Node, of.Subject})
	}
	err := tx.InsertRows(ctx, "INSERT INTO share_numbers (node_id, subject)", rows)
	if sqldb.IsDuplicate(err) {
		err = sqldb.Again(err)
	}
	return err
}

// Find returns what a number stands for; NotFound. That it is there yet, and who may see it, is for
// the caller to ask.
func (n *Numbers) Find(ctx context.Context, number int64) (of Numbered, err error) {
	err = n.db.QueryRow(ctx, "SELECT node_id, subject FROM share_numbers WHERE number = ?", number).Scan(&of.Node, &of.Subject)
	if err != nil {
		err = fmt.Errorf("find the share with the number %d: %w", number, err)
	}
	return of, err
}

// ended says that a row of share_numbers stands for nothing any more.
const ended = `NOT EXISTS (SELECT 1 FROM grants g WHERE g.node_id = share_numbers.node_id AND g.principal_id = share_numbers.subject)
	AND NOT EXISTS (SELECT 1 FROM shares s WHERE s.id = share_numbers.subject)`

// Purge drops the numbers of roles and links that have ended. Nothing tells which these are, so it
// goes over the numbers, some in each call, and may stop anywhere. One that comes back before its
// number is dropped keeps it.
func (n *Numbers) Purge(ctx context.Context) error {
	type row struct {
		number int64
		over   bool
	}
	n.mu.Lock()
	after := n.after
	n.mu.Unlock()
	for seen := 0; seen < numbersPerRun; {
		rows, err := n.db.Query(ctx, "SELECT number, "+ended+" FROM share_numbers WHERE number > ? ORDER BY number LIMIT ?", after, numbersAtOnce)
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
		if err := n.drop(ctx, drop); err != nil {
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

// drop drops those that stand for nothing now, either.
func (n *Numbers) drop(ctx context.Context, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	err := n.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		marks, args := sqldb.In(numbers)
		_, err := tx.Exec(ctx, "DELETE FROM share_numbers WHERE number IN ("+marks+") AND "+ended, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop %d numbers of shares: %w", len(numbers), err)
	}
	return nil
}
