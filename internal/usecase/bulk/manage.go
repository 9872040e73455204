package bulk

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// staleAfter is how long a running operation may stay without an update. After that Get starts it
// again, because its instance may have died before it armed a timer.
const staleAfter = 15 * time.Second

// Get returns an operation of the caller's account, also one of package files. If a running
// operation made no progress for staleAfter, Get has it started again. It returns NotFound if there
// is none, for example a week after its end.
func (b *Bulk) Get(ctx context.Context, who drive.Who, id drive.OperationID) (Operation, error) {
	r, err := b.own(ctx, b.opt.DB, who.Account, id)
	if drive.IsKind(err, drive.NotFound) {
		return b.subtree(ctx, who, id)
	}
	if err == nil && r.state == Running && b.now().Sub(r.updated) > staleAfter {
		b.opt.Start(id)
	}
	return r.show(), err
}

// subtree returns an operation of package files in the form of this package. UpdatedAt is the
// current time, as none is stored. It returns NotFound as files.Operations.Find does.
func (b *Bulk) subtree(ctx context.Context, who drive.Who, id drive.OperationID) (Operation, error) {
	o, err := b.opt.Files.Operations.Find(ctx, who, id)
	made := drive.Time(idTime(id))
	return Operation{
		ID: o.ID, Kind: Subtree, State: State(o.State), Done: o.Done, Total: o.Total, Error: o.Error, CreatedAt: made, UpdatedAt: max(made, b.now()),
	}, err
}

// idTime returns the time at which an id was created, in Unix ms (RFC 9562 §5.7).
func idTime(id drive.OperationID) (ms int64) {
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return ms
}

// List returns up to limit operations of the account, newest first, after the given id (zero: from
// the newest).
func (b *Bulk) List(ctx context.Context, who drive.Who, after drive.OperationID, limit int) ([]Operation, error) {
	where, args := "WHERE account_id = ?", []any{who.Account}
	if !after.IsZero() {
		where, args = where+" AND id < ?", append(args, after)
	}
	rows, err := b.opt.DB.Query(ctx, selectRows+where+" ORDER BY id DESC LIMIT ?", append(args, limit)...)
	found, err := sqldb.Scan(rows, err, scanRow)
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	all := make([]Operation, len(found))
	for i, r := range found {
		all[i] = r.show()
	}
	return all, nil
}

// ListRunning returns up to limit unfinished operations of all accounts, ordered by id, after the
// given id (zero: from the first). The caller must call Run for them after a start.
func (b *Bulk) ListRunning(ctx context.Context, after drive.OperationID, limit int) ([]drive.OperationID, error) {
	rows, err := b.opt.DB.Query(ctx, "SELECT id FROM bulks WHERE state = 'running' AND id > ? ORDER BY id LIMIT ?", after.String(), limit)
	return sqldb.Scan(rows, err, func(id *drive.OperationID, scan func(...any) error) error { return scan(id) })
}

// Cancel stops an operation. Finished items stay done. The current item is completed (a folder
// deletion) or called off (a copy). An ended operation is returned unchanged. NotFound if the
// account has no such operation.
func (b *Bulk) Cancel(ctx context.Context, who drive.Who, id drive.OperationID) (Operation, error) {
	return b.update(ctx, who, id, func(r *row) error {
		if r.state != Running {
			return nil
		}
		if r.stopping = !r.child.IsZero(); !r.stopping {
			r.state = Cancelled
		}
		return nil
	})
}

// Retry executes the failed items of an ended operation again, and the remaining items of a
// cancelled one. It revokes a pending cancellation of a running one. It fails with NotFound, with
// WrongState if the operation was undone, and with TooManyOpen if too many operations of the
// account are unfinished.
func (b *Bulk) Retry(ctx context.Context, who drive.Who, id drive.OperationID) (Operation, error) {
	o, err := b.update(ctx, who, id, func(r *row) error {
		switch {
		case r.state == Running:
			r.stopping = false
			return nil
		case !r.undoneBy.IsZero():
			return drive.Fail(drive.WrongState, "state", string(r.state))
		case r.failed == 0 && r.done == r.total:
			return nil
		}
		r.state, r.position = Running, position{}
		return nil
	})
	if err != nil || o.State != Running {
		return o, err
	}
	r, err := b.own(ctx, b.opt.DB, who.Account, id)
	if err != nil {
		return o, err
	}
	return b.begin(ctx, r)
}

// update applies change to the row of an operation of the account and returns it. NotFound if there
// is none.
func (b *Bulk) update(ctx context.Context, who drive.Who, id drive.OperationID, change func(*row) error) (Operation, error) {
	var r row
	err := b.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if r, err = b.own(ctx, tx, who.Account, id); err != nil {
			return err
		}
		was := r
		if err := change(&r); err != nil || r == was {
			return err
		}
		if was.state != Running && r.state == Running {
			if err := b.mayRun(ctx, tx, r.account); err != nil {
				return err
			}
		}
		return b.save(ctx, tx, was, r)
	})
	return r.show(), err
}

// mayRun returns TooManyOpen if the account has MaxRunning unfinished operations. In a transaction
// that holds the lock of the account, the answer is valid until commit.
func (b *Bulk) mayRun(ctx context.Context, q sqldb.Querier, account drive.AccountID) error {
	var running int
	err := q.QueryRow(ctx, "SELECT COUNT(*) FROM bulks WHERE account_id = ? AND state = 'running'", account).Scan(&running)
	if err == nil && running >= b.opt.MaxRunning {
		err = drive.Fail(drive.TooManyOpen, "reason", "operations", "limit", b.opt.MaxRunning, "sent", running+1)
	}
	return err
}

// Failure is a refused item of an operation, with what is known of its node now.
type Failure struct {
	ID   drive.NodeID // a share id for Unshare
	Code string       // problem code
	Name drive.Name   // empty: the node does not exist (any more)
	Path string       // current or last path; empty like Name
	Type tree.Type
}

// Failures lists the refused items in item order. cursor is empty or the next of the previous page;
// next is empty on the last page. CursorInvalid if cursor is malformed.
func (b *Bulk) Failures(ctx context.Context, who drive.Who, id drive.OperationID, cursor string, limit int) (items []Failure, next string, err error) {
	r, err := b.own(ctx, b.opt.DB, who.Account, id)
	if err != nil {
		return nil, "", err
	}
	from, err := parsePosition(cursor)
	if err != nil {
		return nil, "", err
	}
	for len(items) <= limit {
		rows, err := b.opt.DB.Query(ctx, selectPieces+"WHERE bulk_id = ? AND n >= ? AND failed > 0 ORDER BY n LIMIT 1", id, from.piece)
		found, err := sqldb.Scan(rows, err, scanPiece)
		if err != nil {
			return nil, "", fmt.Errorf("list failures of %v: %w", id, err)
		}
		if len(found) == 0 {
			return items, "", b.fillNames(ctx, r, items)
		}
		p := found[0]
		if p.n > from.piece {
			from = position{piece: p.n}
		}
		for ; from.item < int64(len(p.ids)); from.item++ {
			e := p.entries[from.item]
			if e.Outcome != refused {
				continue
			}
			if len(items) == limit {
				return items, from.String(), b.fillNames(ctx, r, items)
			}
			items = append(items, Failure{ID: p.ids[from.item], Code: e.Code})
		}
		from = position{piece: p.n + 1}
	}
	return items, "", b.fillNames(ctx, r, items)
}

// fillNames sets names, types and paths of the items in place, as of now. Items whose node is gone,
// and shares, keep empty ones.
func (b *Bulk) fillNames(ctx context.Context, r row, items []Failure) error {
	if r.kind == Unshare {
		return nil
	}
	ids := make([]drive.NodeID, len(items))
	for i, f := range items {
		ids[i] = f.ID
	}
	nodes, err := b.opt.Tree.FindMany(ctx, b.opt.DB, r.account, ids...)
	if err != nil {
		return err
	}
	known := make([]tree.Node, 0, len(nodes))
	for _, n := range nodes {
		known = append(known, n)
	}
	spots, err := b.opt.Tree.LocationsOf(ctx, b.opt.DB, known)
	if err != nil {
		return err
	}
	for i, f := range items {
		n, found := nodes[f.ID]
		spot, placed := spots[n.Parent]
		if found && placed && n.Operation.IsZero() {
			items[i].Name, items[i].Type = n.Name, n.Type
			items[i].Path = append(slices.Clip(spot.Path), n.Name).String()
		}
	}
	return nil
}

// String returns the position as a cursor.
func (p position) String() string { return fmt.Sprintf("%d.%d", p.piece, p.item) }

// parsePosition parses a cursor; empty text is the zero position, the first item. It returns
// CursorInvalid for text that position.String does not return.
func parsePosition(s string) (position, error) {
	if s == "" {
		return position{}, nil
	}
	n, i, _ := strings.Cut(s, ".")
	piece, err1 := strconv.ParseInt(n, 10, 64)
	item, err2 := strconv.ParseInt(i, 10, 64)
	p := position{piece, item}
	if err1 != nil || err2 != nil || piece < 0 || item < 0 || p.String() != s {
		return position{}, drive.Fail(drive.CursorInvalid)
	}
	return p, nil
}

// Purge deletes up to 100 operations that ended a week ago, with their items. more reports that
// others remain.
func (b *Bulk) Purge(ctx context.Context) (more bool, err error) {
	const most = 100
	before := drive.TimeOf(b.opt.RetentionClock()).Add(-retention)
	rows, err := b.opt.DB.Query(ctx, "SELECT id, account_id FROM bulks WHERE state IN ('done', 'cancelled') AND updated_at < ? LIMIT ?", before, most)
	old, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.id, &r.account) })
	for _, r := range old {
		if err == nil {
			err = b.write(ctx, r.who(), func(ctx context.Context, tx *sqldb.Tx) error { return b.removeOld(ctx, tx, r.id, before) })
		}
	}
	if err != nil {
		return false, fmt.Errorf("drop ended operations: %w", err)
	}
	return len(old) == most, nil
}

// removeOld deletes within tx an ended operation that was last updated before the given time,
// unless a running undo reads it. If it is missing, running or newer by now, removeOld does
// nothing.
func (b *Bulk) removeOld(ctx context.Context, tx *sqldb.Tx, id drive.OperationID, before drive.Time) error {
	r, err := b.find(ctx, tx, id)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil || r.state == Running || r.updated >= before {
		return err
	}
	if undo, err := b.find(ctx, tx, r.undoneBy); err == nil && undo.state == Running {
		return nil
	} else if err != nil && !drive.IsKind(err, drive.NotFound) {
		return err
	}
	return b.remove(ctx, tx, id)
}

// DeleteAccount deletes the operations of an account that is being deleted, running ones too, in
// one transaction.
func (b *Bulk) DeleteAccount(ctx context.Context, account drive.AccountID) error {
	return b.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) error {
		rows, err := tx.Query(ctx, "SELECT id FROM bulks WHERE account_id = ?", account)
		ids, err := sqldb.Scan(rows, err, func(id *drive.OperationID, scan func(...any) error) error { return scan(id) })
		for _, id := range ids {
			if err == nil {
				err = b.remove(ctx, tx, id)
			}
		}
		return err
	})
}
