package share

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const purgeBatch = 500 // rows per transaction, to stay below 50 ms

// Purge deletes shares of deleted nodes, downloads whose access has expired, and attempts of past
// windows. It works in short transactions and may be interrupted. Each call checks a limited number
// of shares (sqldb.Orphans); until its deletion, such a share is shown as gone and cannot be
// opened.
func (s *Shares) Purge(ctx context.Context) error {
	now := drive.TimeOf(s.opt.RetentionClock())
	for _, b := range []sqldb.Batch{
		{Table: "share_downloads", Key: "visit_id", Where: "begun_at < ?", Args: []any{now.Add(-2 * AccessLife)}},
		{Table: "share_attempts", Key: "subject", Where: "started_at < ?", Args: []any{now.Add(-attemptWindow)}},
	} {
		if err := s.deleteAll(ctx, b); err != nil {
			return fmt.Errorf("purge %s: %w", b.Table, err)
		}
	}
	return s.Links.Purge(ctx)
}

// deleteAll deletes the rows that b selects, purgeBatch per transaction, until fewer are found. On
// an error the batches before it stay deleted. It ignores b.Limit.
func (s *Shares) deleteAll(ctx context.Context, b sqldb.Batch) error {
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
