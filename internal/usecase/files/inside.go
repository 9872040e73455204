package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Inside is what work on many nodes does to one of them within a transaction of its own, which has
// the lock on the ledger. What is more than one batch goes on as an operation, which the caller
// runs with Step. References to contents are taken and given back by Settle, once for all of a
// transaction, in the order of their ids.
type Inside struct {
	f    *Files
	tx   *sqldb.Tx
	who  drive.Who
	took []tree.Node
	gone []tree.Version
	rows int64
	torn bool
}

// In returns the Inside of a transaction.
func (f *Files) In(tx *sqldb.Tx, who drive.Who) *Inside { return &Inside{f: f, tx: tx, who: who} }

// Rows is about how many rows were written so far.
func (in *Inside) Rows() int64 { return in.rows }

// Torn reports whether a refusal came after a write: the transaction is then of no use.
func (in *Inside) Torn() bool { return in.torn }

// Delete deletes a node for good, or begins to: the operation does the rest. changed is false when
// it was gone already.
func (in *Inside) Delete(ctx context.Context, id drive.NodeID) (op drive.OperationID, changed bool, err error) {
	t, account := in.f.opt.Tree, in.who.Account
	o := newOperation(in.who, purgeNode, args{Top: id})
	if _, err := t.Doom(ctx, in.tx, account, id, 0, o.ID); err != nil {
		if !drive.IsKind(err, drive.NotFound) {
			return op, false, err
		}
		was, failed := t.Purged(ctx, in.tx, account, id)
		if failed == nil && !was {
			failed = err
		}
		return op, false, failed
	}
	p, err := t.PurgeStep(ctx, in.tx, account, id, in.f.opt.Batch)
	if err != nil {
		return op, false, err
	}
	in.gone = append(in.gone, p.Versions...)
	in.rows += p.Nodes + int64(len(p.Versions))
	if p.Done {
		return op, true, nil
	}
	o.Done = p.Nodes
	return o.ID, true, in.f.Operations.rows.insert(ctx, in.tx, o)
}

// Copy copies a live file, or begins to copy a live folder: the operation does the rest.
func (in *Inside) Copy(ctx context.Context, id drive.NodeID, c Copy, below tree.Extent) (made drive.NodeID, op drive.OperationID, err error) {
	src, err := in.f.live(ctx, in.tx, in.who, id)
	if err != nil {
		return made, op, err
	}
	if src.IsRoot() {
		return made, op, drive.Bad("id", drive.NotAllowed, "sent", RootID)
	}
	if c.Name == "" {
		c.Name = src.Name
	}
	in.rows += 2
	if !src.IsFolder() {
		made, err = in.copyFile(ctx, src, c)
		return made, op, err
	}
	o := newOperation(in.who, copyFolder, args{Copy: &copyArgs{Parent: c.Parent, From: src.ID, Conflict: c.Conflict, Below: below}})
	if !in.who.Guest {
		if err := in.f.Copies.admit(ctx, in.tx, passage{from: access.Pass{Who: in.who}}, &o); err != nil {
			return made, op, err
		}
	}
	if err := in.f.Copies.work.begin(ctx, in.tx, &o, src, c); err != nil {
		return made, op, err
	}
	return o.args.Top, o.ID, in.f.Operations.rows.insert(ctx, in.tx, o)
}

func (in *Inside) copyFile(ctx context.Context, src tree.Node, c Copy) (drive.NodeID, error) {
	t, account := in.f.opt.Tree, in.who.Account
	there, _, err := t.Child(ctx, in.tx, account, c.Parent, c.Name)
	if err != nil {
		return drive.NodeID{}, err
	}
	at := tree.Place{Parent: c.Parent, Name: c.Name, Conflict: c.Conflict, Base: there.Version}
	if err := t.CheckPlace(ctx, in.tx, account, at); err != nil {
		return drive.NodeID{}, err
	}
	if err := in.f.opt.Ledger.Apply(ctx, in.tx, account, quota.Move{Finished: src.Size}); err != nil {
		return drive.NodeID{}, err
	}
	placed, err := t.PutFile(ctx, in.tx, account, tree.File{
		Parent: c.Parent, Name: c.Name, Conflict: c.Conflict, Base: there.Version,
		Blob: src.Blob, Size: src.Size, MTime: src.MTime, Mime: src.Mime, By: in.who.User, Who: in.who,
	})
	in.torn = err != nil
	in.took, in.gone = append(in.took, src), append(in.gone, placed.Dropped...)
	return placed.Node.ID, err
}

// Settle takes and gives back the references of all that was copied and deleted. It is the last
// step of the transaction.
func (in *Inside) Settle(ctx context.Context) error {
	if err := in.f.opt.Content.RefAll(ctx, in.tx, blobsOf(in.took)...); err != nil {
		return err
	}
	return in.f.drop(ctx, in.tx, in.who.Account, in.gone)
}
