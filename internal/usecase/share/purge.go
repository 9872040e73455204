package share

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const purgeBatch = 500 // rows a transaction, well within its 50 ms

// Purge drops what no longer means anything: shares of nodes that were deleted for good, downloads
// whose access is over, attempts of past windows. It works in short transactions and may stop
// anywhere. Of the shares it looks at some in each call (sqldb.Orphans): until one is found it is
// shown as gone, and opens nothing.
func (s *Shares) Purge(ctx context.Context) error {
	now := drive.TimeOf(s.opt.Kept())
	for _, b := range []sqldb.Batch{
		{Table: "share_downloads", Key: "visit_id", Where: "begun_at < ?", Args: []any{now.Add(-2 * AccessLife)}},
		{Table: "share_attempts", Key: "subject", Where: "started_at < ?", Args: []any{now.Add(-attemptWindow)}},
	} {
		if err := s.drop(ctx, b); err != nil {
			return fmt.Errorf("purge %s: %w", b.Table, err)
		}
	}
	return s.Links.Purge(ctx)
}

func (s *Shares) drop(ctx context.Context, b sqldb.Batch) error {
	b.Limit = purgeBatch
	for {
		var n int64
		err := s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, b)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}
