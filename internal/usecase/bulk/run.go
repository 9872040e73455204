package bulk

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Progress tells the caller of Run whether, and when, to call it again.
type Progress int

// What the caller of Run does next.
const (
	Ended    Progress = iota // the operation has ended or does not exist
	Continue                 // call Run again after other accounts had their turn
	Blocked                  // an older operation of the account comes first: call again a little later
)

// Run executes a slice of an operation. It may be called at any time, repeatedly and concurrently.
// NotFound if this package has no such operation. After any other error the caller calls again
// later.
func (b *Bulk) Run(ctx context.Context, id drive.OperationID) (Progress, error) {
	for range b.opt.TransactionsPerRun {
		r, err := b.find(ctx, b.opt.DB, id)
		if err != nil {
			return Ended, fmt.Errorf("run operation %v: %w", id, err)
		}
		if r.state != Running {
			return Ended, nil
		}
		if wait, err := b.mustWait(ctx, b.opt.DB, r); err != nil || wait {
			return Blocked, err
		}
		if err := b.step(ctx, r); err != nil {
			return Continue, fmt.Errorf("run operation %v: %w", id, err)
		}
		if err := ctx.Err(); err != nil {
			return Continue, drive.Wrap(err, drive.Unavailable)
		}
	}
	return Continue, nil
}

// mustWait reports whether another running operation of the account comes first: the one that r
// undoes, or an older one that does not itself wait for r.
func (b *Bulk) mustWait(ctx context.Context, q sqldb.Querier, r row) (bool, error) {
	var n int
	err := q.QueryRow(ctx, `SELECT COUNT(*) FROM bulks WHERE account_id = ? AND state = 'running' AND id <> ?
		AND (id = ? OR id < ? AND COALESCE(source_id, '') <> ?)`, r.account, r.id, r.source.String(), r.id, r.id.String()).Scan(&n)
	return n > 0, err
}

// step runs the next transaction of an operation, whose row as last read is r: items, the state of
// a child, or the end. If the row has changed since, it does nothing. The caller reads the row
// again.
func (b *Bulk) step(ctx context.Context, r row) error {
	switch {
	case !r.child.IsZero():
		return b.stepChild(ctx, r)
	case r.stopping:
		return b.end(ctx, r, Cancelled)
	case r.filled > 0:
		return b.fill(ctx, r)
	}
	p, found, err := b.next(ctx, b.opt.DB, r.id, r.position.piece)
	switch {
	case err != nil:
		return err
	case !found:
		return b.end(ctx, r, Done)
	case p.n > r.position.piece:
		r.position = position{piece: p.n}
	}
	below, err := b.measure(ctx, r, p)
	if err != nil {
		return err
	}
	return b.stepPiece(ctx, r, p, below)
}

// measure reads the subtree extents of folders that a piece moves, restores or copies, before the
// transaction.
func (b *Bulk) measure(ctx context.Context, r row, p piece) (map[drive.NodeID]tree.Extent, error) {
	below := map[drive.NodeID]tree.Extent{}
	if r.kind != Move && r.kind != Restore && r.kind != Copy {
		return below, nil
	}
	nodes, err := b.opt.Tree.FindMany(ctx, b.opt.DB, r.account, p.ids...)
	if err != nil {
		return nil, err
	}
	for i, id := range p.ids {
		n := nodes[id]
		if !n.IsFolder() || !n.Operation.IsZero() || int64(i) < r.position.item {
			continue
		}
		parent := r.parent
		if w := p.entries[i].Want; w != nil && !w.Parent.IsZero() {
			parent = w.Parent
		}
		if r.kind == Copy {
			below[id], err = b.opt.Tree.Extent(ctx, b.opt.DB, id)
		} else {
			below[id], err = b.opt.Files.MoveExtent(ctx, b.opt.DB, r.who(), id, parent, "")
		}
		if err != nil && !drive.IsKind(err, drive.NotFound) { // deleted since: the transaction reports it
			return nil, err
		}
	}
	return below, nil
}

// itemError is the error of an item after which its transaction is rolled back. Unless the error is
// transient, the transaction runs again and records the item as failed.
type itemError struct {
	item int64
	err  error
}

// Error returns the number of the item and the cause.
func (s *itemError) Error() string { return fmt.Sprintf("item %d: %v", s.item, s.err) }

// Unwrap returns the cause.
func (s *itemError) Unwrap() error { return s.err }

// stepPiece executes the next items of a piece. An item that fails may have written something, so
// the transaction is rolled back and repeated with that item recorded as failed.
func (b *Bulk) stepPiece(ctx context.Context, r row, p piece, below map[drive.NodeID]tree.Extent) error {
	var known *itemError
	for {
		err := b.opt.LongTurns.Do(ctx, r.account, func() error { return b.tryPiece(ctx, r, p, below, known) })
		at, isStuck := errors.AsType[*itemError](err)
		if !isStuck || transient(ctx, err) || known != nil && at.item >= known.item {
			return err
		}
		if !permanent(err) {
			b.opt.Log.ErrorContext(ctx, "item of an operation failed unexpectedly; it is recorded as a failure and the operation continues", "operation", r.id, "kind", r.kind, "item", p.ids[at.item], "error", at.err)
		}
		known = at
	}
}

// tryPiece executes the remaining items of a piece in one transaction. It stops after known, the
// item already known to fail (nil: none).
func (b *Bulk) tryPiece(ctx context.Context, was row, p piece, below map[drive.NodeID]tree.Extent, known *itemError) error {
	return b.write(ctx, was.who(), func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := b.find(ctx, tx, was.id)
		if err != nil || now.state != Running || now.stopping || !now.child.IsZero() || now.filled > 0 {
			return err // another caller was faster, or the operation must stop: the next step decides
		}
		fresh, found, err := b.next(ctx, tx, was.id, now.position.piece)
		if err != nil || !found || fresh.n != p.n || now.position.piece == p.n && now.position.item != was.position.item {
			return err
		}
		r := now
		r.position = was.position
		before, err := b.opt.Tree.FindMany(ctx, tx, r.account, fresh.ids...)
		if err != nil {
			return err
		}
		t := &batch{b: b, tx: tx, row: r, inside: b.opt.Files.TxBatch(tx, r.who()), before: before, below: below}
		if err := t.run(ctx, &fresh, known); err != nil {
			return err
		}
		if err := t.inside.ApplyRefs(ctx); err != nil {
			return err
		}
		if err := b.savePiece(ctx, tx, r.id, fresh); err != nil {
			return err
		}
		return b.save(ctx, tx, now, t.row)
	})
}

// run executes items until the end of the piece, the item known to fail, an item with a child, or a
// large transaction. It advances the position behind the last item done.
func (t *batch) run(ctx context.Context, p *piece, known *itemError) error {
	r := &t.row
	for ; r.position.item < int64(len(p.ids)); r.position.item++ {
		i := r.position.item
		e := &p.entries[i]
		if e.Outcome == changed || e.Outcome == unchanged {
			continue
		}
		if known != nil && known.item == i {
			r.setResult(e, failure(*e, known.err))
			r.position.item++
			break
		}
		next, child, err := t.apply(ctx, p.ids[i], *e)
		switch {
		case err != nil && permanent(err) && !dailyLimit(err) && !t.inside.Tainted():
			next = failure(*e, err)
		case err != nil:
			return &itemError{i, err}
		case !child.IsZero():
			next.Outcome = pending
			if e.Outcome == refused {
				r.done, r.failed = r.done-1, r.failed-1
			}
			*e, r.child = next, child
			return nil
		}
		if next.Outcome != refused {
			next.Code = ""
		}
		r.setResult(e, next)
		if t.inside.Rows() >= int64(t.b.opt.ItemsPerTransaction) {
			r.position.item++
			break
		}
	}
	if r.position.item == int64(len(p.ids)) {
		r.position = position{piece: p.n + 1}
	}
	return nil
}

// failure returns the record of an item refused with err: its problem code, and Want as in e.
func failure(e entry, err error) entry {
	return entry{Outcome: refused, Code: drive.KindOf(err).String(), Want: e.Want}
}

// setResult replaces *e, the record of an item, by next and updates the counters of r. It writes
// nothing to the database.
func (r *row) setResult(e *entry, next entry) {
	switch e.Outcome {
	case pending:
		r.done++
	case refused:
		r.failed--
	case changed, unchanged:
	}
	if next.Outcome == refused {
		r.failed++
	}
	*e = next
}

// end writes the final state of an operation and then starts the account's next ones. If the row
// was is not current any more, or the operation has ended, it changes nothing.
func (b *Bulk) end(ctx context.Context, was row, as State) error {
	var after []drive.OperationID
	err := b.write(ctx, was.who(), func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := b.find(ctx, tx, was.id)
		if err != nil || now.state != Running || now.position != was.position || now.filled != was.filled || !now.child.IsZero() {
			return err
		}
		r := now
		r.state = as
		if r.stopping {
			r.state = Cancelled
		}
		r.stopping = false
		if err := b.save(ctx, tx, now, r); err != nil {
			return err
		}
		if err := b.publishFailed(ctx, tx, r); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT id FROM bulks WHERE account_id = ? AND state = 'running' ORDER BY id LIMIT 2", r.account)
		after, err = sqldb.Scan(rows, err, func(id *drive.OperationID, scan func(...any) error) error { return scan(id) })
		return err
	})
	if err == nil {
		for _, id := range after {
			b.opt.Start(id)
		}
	}
	return err
}

// publishFailed publishes that an operation ended with failures, unless it was short enough for its
// response to say so.
func (b *Bulk) publishFailed(ctx context.Context, tx *sqldb.Tx, r row) error {
	if b.opt.Events == nil || r.state != Done || r.failed == 0 || r.total <= b.opt.MaxImmediate {
		return nil
	}
	record, err := notice.NewRecord(notice.Cause{
		Kind: notice.Operation, What: notice.Failed, Account: r.account, User: r.user, Data: notice.Data{Failed: r.failed, Reason: string(r.kind), Subject: r.id.String()},
	})
	if err != nil {
		return err
	}
	return b.opt.Events.Append(ctx, tx, record)
}
