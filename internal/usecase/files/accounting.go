package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// accounting keeps the ledger of an account and the reference counts of blobs consistent with its
// nodes.
type accounting struct {
	db      *sqldb.DB
	ledger  quota.Ledger
	content content.Content
}

// write runs fn in a transaction that acts for who. It locks the ledger of who.Account first, which
// serializes all changes of one account.
func (a *accounting) write(ctx context.Context, who drive.Who, fn func(context.Context, *sqldb.Tx) error) error {
	return a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if err := a.ledger.Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// charge adds a reference to the blob of each node and adds the nodes' sizes to the account's
// ledger (Q1, Q4). It fails with Quota if the account has too little space.
func (a *accounting) charge(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, nodes ...tree.Node) error {
	var sum drive.ByteSize
	for _, n := range nodes {
		sum += n.Size
	}
	if err := a.ledger.Apply(ctx, tx, account, quota.Move{Finished: sum}); err != nil {
		return err
	}
	return a.content.RefAll(ctx, tx, blobsOf(nodes)...)
}

// blobsOf returns the blob ids of the nodes, skipping nodes without content.
func blobsOf(nodes []tree.Node) (blobs []drive.BlobID) {
	for _, n := range nodes {
		if !n.Blob.IsZero() {
			blobs = append(blobs, n.Blob)
		}
	}
	return blobs
}

// drop releases the blobs of versions that were deleted and subtracts their sizes from the
// account's ledger (Q1, B2).
func (a *accounting) drop(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, gone []tree.Version) error {
	if len(gone) == 0 {
		return nil
	}
	var sum drive.ByteSize
	for _, v := range gone {
		sum += v.Size
	}
	if err := a.ledger.Apply(ctx, tx, account, quota.Move{Finished: -sum}); err != nil {
		return err
	}
	blobs := make([]drive.BlobID, len(gone))
	for i, v := range gone {
		blobs[i] = v.Blob
	}
	return a.content.ReleaseAll(ctx, tx, account, blobs...)
}
