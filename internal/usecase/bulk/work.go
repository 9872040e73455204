package bulk

import (
	"context"
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Progress is what Run says about an operation.
type Progress int

// What Run says.
const (
	Over  Progress = iota // it has ended, or there is none
	More                  // call again, when others had their turn
	Waits                 // an older one of the account is first: call again a little later
)

// Run does a slice of an operation. It may be called at any time, any number of times, by several
// callers at once. NotFound says that the id is that of no operation of this package. Any other
// error says that it could not go on now: call again later.
func (b *Bulk) Run(ctx context.Context, id drive.OperationID) (Progress, error) {
	for range b.opt.Slice {
		r, err := b.find(ctx, b.opt.DB, id)
		if err != nil {
			return Over, fmt.Errorf("run operation %v: %w", id, err)
		}
		if r.state != Running {
			return Over, nil
		}
		if wait, err := b.waits(ctx, b.opt.DB, r); err != nil || wait {
			return Waits, err
		}
		if err := b.step(ctx, r); err != nil {
			return More, fmt.Errorf("run operation %v: %w", id, err)
		}
		if err := ctx.Err(); err != nil {
			return More, drive.Wrap(err, drive.Unavailable)
		}
	}
	return More, nil
}

// waits reports whether another operation of the account is first: an older one that does not wait
// for this one, or the one that this one undoes.
func (b *Bulk) waits(ctx context.Context, q sqldb.Querier, r row) (bool, error) {
	var n int
	err := q.QueryRow(ctx, `SELECT COUNT(*) FROM bulks WHERE account_id = ? AND state = 'running' AND id <> ?
		AND (id = ? OR id < ? AND COALESCE(source_id, '') <> ?)`, r.account, r.id, r.source.String(), r.id, r.id.String()).Scan(&n)
	return n > 0, err
}

// step does the next transaction of an operation, as it was read to be.
func (b *Bulk) step(ctx context.Context, r row) error {
	switch {
	case !r.child.IsZero():
		return b.stepChild(ctx, r)
	case r.stopping:
		return b.end(ctx, r, Cancelled)
	case r.filled > 0:
		return b.fill(ctx, r)
	}
	p, found, err := b.next(ctx, b.opt.DB, r.id, r.place.piece)
	switch {
	case err != nil:
		return err
	case !found:
		return b.end(ctx, r, Done)
	case p.n > r.place.piece:
		r.place = place{piece: p.n}
	}
	below, err := b.measure(ctx, r, p)
	if err != nil {
		return err
	}
	return b.stepPiece(ctx, r, p, below)
}

// measure looks, before the transaction, at what is below the folders of a piece that go somewhere.
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
		if !n.IsFolder() || !n.Operation.IsZero() || int64(i) < r.place.item {
			continue
		}
		parent := r.parent
		if w := p.entries[i].Want; w != nil && !w.Parent.IsZero() {
			parent = w.Parent
		}
		if r.kind == Copy {
			below[id], err = b.opt.Tree.Extent(ctx, b.opt.DB, id)
		} else {
			below[id], err = b.opt.Files.Below(ctx, b.opt.DB, r.who(), id, parent, "")
		}
		if err != nil && !drive.IsKind(err, drive.NotFound) { // gone since: the transaction says so
			return nil, err
		}
	}
	return below, nil
}

// stuck is the item at which a transaction could not go on.
type stuck struct {
	item int64
	err  error
}

func (s *stuck) Error() string { return fmt.Sprintf("item %d: %v", s.item, s.err) }
func (s *stuck) Unwrap() error { return s.err }

// stepPiece does the next items of a piece. An item that cannot be done may have left writes
// behind, which go with the transaction: it is tried again with that item recorded as a failure.
func (b *Bulk) stepPiece(ctx context.Context, r row, p piece, below map[drive.NodeID]tree.Extent) error {
	var known *stuck
	for {
		err := b.opt.Turns.Do(ctx, r.account, func() error { return b.tryPiece(ctx, r, p, below, known) })
		at, isStuck := errors.AsType[*stuck](err)
		if !isStuck || passing(ctx, err) || known != nil && at.item >= known.item {
			return err
		}
		if !refusal(err) {
			b.opt.Log.ErrorContext(ctx, "an item of an operation fails", "operation", r.id, "kind", r.kind, "item", p.ids[at.item], "error", at.err)
		}
		known = at
	}
}

// tryPiece does, in one transaction, the items of a piece from the operation's place on. It stops
// behind the item that is known to fail.
func (b *Bulk) tryPiece(ctx context.Context, was row, p piece, below map[drive.NodeID]tree.Extent, known *stuck) error {
	return b.write(ctx, was.who(), func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := b.find(ctx, tx, was.id)
		if err != nil || now.state != Running || now.stopping || !now.child.IsZero() || now.filled > 0 {
			return err // another caller was faster, or it is to stop: the next step looks again
		}
		fresh, found, err := b.next(ctx, tx, was.id, now.place.piece)
		if err != nil || !found || fresh.n != p.n || now.place.piece == p.n && now.place.item != was.place.item {
			return err
		}
		r := now
		r.place = was.place
		before, err := b.opt.Tree.FindMany(ctx, tx, r.account, fresh.ids...)
		if err != nil {
			return err
		}
		t := &batch{b: b, tx: tx, row: r, inside: b.opt.Files.In(tx, r.who()), before: before, below: below}
		if err := t.run(ctx, &fresh, known); err != nil {
			return err
		}
		if err := t.inside.Settle(ctx); err != nil {
			return err
		}
		if err := b.savePiece(ctx, tx, r.id, fresh); err != nil {
			return err
		}
		return b.save(ctx, tx, now, t.row)
	})
}

// run does the items of a piece one after the other, and moves the place behind the last of them:
// the last of the piece, the one that is known to fail, the one that has a child, or the one that
// made the transaction large.
func (t *batch) run(ctx context.Context, p *piece, known *stuck) error {
	r := &t.row
	for ; r.place.item < int64(len(p.ids)); r.place.item++ {
		i := r.place.item
		e := &p.entries[i]
		if e.Outcome == changed || e.Outcome == asItWas {
			continue
		}
		if known != nil && known.item == i {
			r.settle(e, failure(*e, known.err))
			r.place.item++
			break
		}
		next, child, err := t.act(ctx, p.ids[i], *e)
		switch {
		case err != nil && refusal(err) && !overDay(err) && !t.inside.Torn():
			next = failure(*e, err)
		case err != nil:
			return &stuck{i, err}
		case !child.IsZero():
			next.Outcome = waiting
			if e.Outcome == refused {
				r.done, r.failed = r.done-1, r.failed-1
			}
			*e, r.child = next, child
			return nil
		}
		if next.Outcome != refused {
			next.Code = ""
		}
		r.settle(e, next)
		if t.inside.Rows() >= int64(t.b.opt.Piece) {
			r.place.item++
			break
		}
	}
	if r.place.item == int64(len(p.ids)) {
		r.place = place{piece: p.n + 1}
	}
	return nil
}

func failure(e entry, err error) entry {
	return entry{Outcome: refused, Code: drive.KindOf(err).String(), Want: e.Want}
}

// settle puts down what became of an item, and counts it.
func (r *row) settle(e *entry, next entry) {
	switch e.Outcome {
	case waiting:
		r.done++
	case refused:
		r.failed--
	case changed, asItWas:
	}
	if next.Outcome == refused {
		r.failed++
	}
	*e = next
}

// end is the last transaction of an operation. The next one of the account begins.
func (b *Bulk) end(ctx context.Context, was row, as State) error {
	var after []drive.OperationID
	err := b.write(ctx, was.who(), func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := b.find(ctx, tx, was.id)
		if err != nil || now.state != Running || now.place != was.place || now.filled != was.filled || !now.child.IsZero() {
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
		if err := b.tellFailed(ctx, tx, r); err != nil {
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

// tellFailed has somebody told that an operation has ended and that some of it failed, unless it
// was so short that the answer to its request has said so.
func (b *Bulk) tellFailed(ctx context.Context, tx *sqldb.Tx, r row) error {
	if b.opt.Events == nil || r.state != Done || r.failed == 0 || r.total <= b.opt.Direct {
		return nil
	}
	record, err := notice.Due(notice.Cause{
		Kind: notice.Operation, What: notice.Failed, Account: r.account, User: r.user, Data: notice.Data{Failed: r.failed, Reason: string(r.kind), Subject: r.id.String()},
	})
	if err != nil {
		return err
	}
	return b.opt.Events.Append(ctx, tx, record)
}
