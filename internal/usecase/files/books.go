package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// books are what each change of an account keeps right: the ledger, and the references to contents.
type books struct {
	db      *sqldb.DB
	ledger  quota.Ledger
	content content.Content
}

// write runs fn in a transaction that changes what belongs to the account of who: it begins with
// the lock on the ledger, so that all of them go one after the other.
func (b *books) write(ctx context.Context, who drive.Who, fn func(context.Context, *sqldb.Tx) error) error {
	return b.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(who)
		if err := b.ledger.Lock(ctx, tx, who.Account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// charge takes references to the blobs of the nodes and grows the ledger by their sizes (Q1, Q4).
func (b *books) charge(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, nodes ...tree.Node) error {
	var sum drive.ByteSize
	for _, n := range nodes {
		sum += n.Size
	}
	if err := b.ledger.Apply(ctx, tx, account, quota.Move{Finished: sum}); err != nil {
		return err
	}
	return b.content.RefAll(ctx, tx, blobsOf(nodes)...)
}

func blobsOf(nodes []tree.Node) (blobs []drive.BlobID) {
	for _, n := range nodes {
		if !n.Blob.IsZero() {
			blobs = append(blobs, n.Blob)
		}
	}
	return blobs
}

// drop releases the blobs of versions that are gone and takes their sizes off the ledger (Q1, B2).
func (b *books) drop(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, gone []tree.Version) error {
	if len(gone) == 0 {
		return nil
	}
	var sum drive.ByteSize
	for _, v := range gone {
		sum += v.Size
	}
	if err := b.ledger.Apply(ctx, tx, account, quota.Move{Finished: -sum}); err != nil {
		return err
	}
	blobs := make([]drive.BlobID, len(gone))
	for i, v := range gone {
		blobs[i] = v.Blob
	}
	return b.content.ReleaseAll(ctx, tx, account, blobs...)
}
