package bulk

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

// stepChild runs one step of the child operation of an item. When the child has ended, its result
// becomes the item's.
func (b *Bulk) stepChild(ctx context.Context, r row) error {
	if r.stopping && r.kind == Copy {
		if err := b.opt.Files.Copies.Cancel(ctx, r.child); err != nil {
			return err
		}
	}
	o, err := b.opt.Files.Operations.Step(ctx, r.child)
	if err != nil || o.State == files.Running {
		return err
	}
	return b.write(ctx, r.who(), func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := b.find(ctx, tx, r.id)
		if err != nil || now.state != Running || now.child != r.child {
			return err
		}
		p, found, err := b.next(ctx, tx, r.id, now.position.piece)
		if err != nil || !found || now.position.item >= int64(len(p.ids)) {
			return err
		}
		was := now
		e := &p.entries[now.position.item]
		now.child = drive.OperationID{}
		if o.State == files.Failed && now.stopping { // the child was called off: the item waits as before
			*e = entry{Want: e.Want}
		} else {
			now.setResult(e, childEnd(*e, o))
			now.position.item++
		}
		if now.position.item == int64(len(p.ids)) {
			now.position = position{piece: p.n + 1}
		}
		if err := b.savePiece(ctx, tx, r.id, p); err != nil {
			return err
		}
		return b.save(ctx, tx, was, now)
	})
}

// childEnd returns the record of an item whose child ended in state o.
func childEnd(e entry, o files.Operation) entry {
	if o.State == files.Failed {
		return entry{Outcome: refused, Code: o.Error, Want: e.Want}
	}
	e.Outcome, e.Code = changed, ""
	return e
}
