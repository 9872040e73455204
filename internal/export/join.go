package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// join returns the newest batch of the account with the same request that has not ended, or creates
// one. Concurrent requests get the same batch. The hook of the draft runs in either case.
func (c *creator) join(ctx context.Context, d draft) (View, error) {
	now, err := c.now(ctx)
	if err != nil {
		return View{}, err
	}
	v, err := c.joinExisting(ctx, d, now)
	if err != nil || !v.ID.IsZero() {
		return v, err
	}
	d.beforeInsert = func(ctx context.Context, tx *sqldb.Tx) error {
		if twin, err := c.findSameRequest(ctx, tx, d, now); err != nil || twin != nil {
			return errors.Join(err, errExists)
		}
		return nil
	}
	if v, err = c.createSet(ctx, d); errors.Is(err, errExists) {
		return c.joinExisting(ctx, d, now)
	}
	return v, err
}

// joinExisting returns the batch that findSameRequest finds, after the hook of the draft has run in
// the same transaction. It returns the zero View, without an error, if there is none.
func (c *creator) joinExisting(ctx context.Context, d draft, now drive.Time) (v View, err error) {
	err = c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		b, err := c.findSameRequest(ctx, tx, d, now)
		if err != nil || b == nil {
			return err
		}
		v = b.view(now)
		v.Joined = true
		if d.hook == nil {
			return nil
		}
		return d.hook(ctx, tx, v)
	})
	return v, err
}

// findSameRequest returns the newest batch with the same request that has not ended; of a set, its
// first batch. It returns nil without an error if there is none.
func (c *creator) findSameRequest(ctx context.Context, tx *sqldb.Tx, d draft, now drive.Time) (*batch, error) {
	want, err := json.Marshal(d.request.Request)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, selectBatches+`WHERE account_id = ? AND state IN ('pending', 'running', 'aborted', 'sealed')
		AND (expires_at = 0 OR expires_at > ?) AND origin <> 'supplement' AND COALESCE(part, 1) = 1 AND request LIKE ? ORDER BY id DESC`,
		d.who.Account, now, "%"+d.request.Folder.String()+"%")
	all, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return nil, err
	}
	for i, b := range all {
		a, err := b.storedRequest()
		if err != nil {
			return nil, err
		}
		if have, err := json.Marshal(a.Request); err != nil || bytes.Equal(have, want) {
			return &all[i], err
		}
	}
	return nil, nil //nolint:nilnil // nil means none
}
