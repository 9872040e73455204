package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// TxBatch deletes and copies single nodes within the caller's transaction, for operations on many
// nodes. The caller holds the lock on the ledger. Work larger than one batch continues as an
// operation, which the caller runs with Operations.Step. Blob references change only in ApplyRefs,
// once per transaction and in the order of blob ids.
type TxBatch struct {
	f       *Files
	tx      *sqldb.Tx
	who     drive.Who
	copied  []tree.Node    // sources whose blobs ApplyRefs references
	dropped []tree.Version // versions whose blobs ApplyRefs releases
	rows    int64          // approximate number of rows written
	tainted bool
}

// TxBatch returns a TxBatch for tx, acting for who. The caller ends the transaction with
// ApplyRefs.
func (f *Files) TxBatch(tx *sqldb.Tx, who drive.Who) *TxBatch {
	return &TxBatch{f: f, tx: tx, who: who}
}

// Rows returns approximately how many rows were written so far.
func (in *TxBatch) Rows() int64 { return in.rows }

// Tainted reports whether a step failed after it had written: the caller must roll the transaction
// back. After other errors of a step the caller may go on.
func (in *TxBatch) Tainted() bool { return in.tainted }

// Delete deletes a node permanently. If one batch is not enough, op is the operation that
// continues; else op is zero. changed is false if the node had been deleted before. It fails as
// tree.MarkForPurge does for e.
func (in *TxBatch) Delete(ctx context.Context, id drive.NodeID, e tree.Expect) (op drive.OperationID, changed bool, err error) {
	t, account := in.f.opt.Tree, in.who.Account
	o := newOperation(in.who, purgeNode, args{Top: id})
	if _, err := t.MarkForPurge(ctx, in.tx, account, id, e, o.ID); err != nil {
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
	in.dropped = append(in.dropped, p.Versions...)
	in.rows += p.Nodes + int64(len(p.Versions))
	if p.Done {
		return op, true, nil
	}
	o.Done = p.Nodes
	return o.ID, true, in.f.Operations.store.insert(ctx, in.tx, o)
}

// Copy copies a live file, or begins to copy a live folder. made is the copy; op is the operation
// that continues a folder's copy, zero for a file. The caller checks access and passes the extent
// of the folder in below.
func (in *TxBatch) Copy(ctx context.Context, id drive.NodeID, c Copy, below tree.Extent) (made drive.NodeID, op drive.OperationID, err error) {
	src, err := in.f.findLive(ctx, in.tx, in.who, id)
	if err != nil {
		return made, op, err
	}
	if src.IsRoot() {
		return made, op, drive.BadField("id", drive.NotAllowed, "sent", RootID)
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
		if err := in.f.Copies.admit(ctx, in.tx, passes{from: access.Pass{Who: in.who}}, &o); err != nil {
			return made, op, err
		}
	}
	if err := in.f.Copies.handler.begin(ctx, in.tx, &o, src, c); err != nil {
		return made, op, err
	}
	return o.args.Top, o.ID, in.f.Operations.store.insert(ctx, in.tx, o)
}

// copyFile checks everything that can refuse the copy before it writes, and returns the id of the
// copy.
func (in *TxBatch) copyFile(ctx context.Context, src tree.Node, c Copy) (drive.NodeID, error) {
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
	placed, err := t.PutFile(ctx, in.tx, account, tree.CopyOf(src, at, in.who))
	in.tainted = err != nil
	in.copied, in.dropped = append(in.copied, src), append(in.dropped, placed.Dropped...)
	return placed.Node.ID, err
}

// ApplyRefs adds the references of copied content and releases those of deleted versions. It is the
// last step of the transaction.
func (in *TxBatch) ApplyRefs(ctx context.Context) error {
	if err := in.f.opt.Content.RefAll(ctx, in.tx, blobsOf(in.copied)...); err != nil {
		return err
	}
	return in.f.drop(ctx, in.tx, in.who.Account, in.dropped)
}
