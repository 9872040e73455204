package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// join returns the batch of the account that was made for the same request and has not ended, or
// makes one. Two requests at the same time get one batch.
func (o *orders) join(ctx context.Context, d draft) (View, error) {
	now, err := o.now(ctx)
	if err != nil {
		return View{}, err
	}
	v, err := o.joined(ctx, d, now)
	if err != nil || !v.ID.IsZero() {
		return v, err
	}
	d.also = func(ctx context.Context, tx *sqldb.Tx) error {
		if twin, err := o.twin(ctx, tx, d, now); err != nil || twin != nil {
			return errors.Join(err, errMade)
		}
		return nil
	}
	if v, err = o.make(ctx, d); errors.Is(err, errMade) {
		return o.joined(ctx, d, now)
	}
	return v, err
}

// joined returns the batch that a request joins, and runs its hook; the zero View: there is none.
func (o *orders) joined(ctx context.Context, d draft, now drive.Time) (v View, err error) {
	err = o.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		b, err := o.twin(ctx, tx, d, now)
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

// twin finds the newest batch, or first of a set, that was made for the same request and has
// not ended; nil: there is none.
func (o *orders) twin(ctx context.Context, tx *sqldb.Tx, d draft, now drive.Time) (*batch, error) {
	want, err := json.Marshal(d.asked.Request)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, selectBatches+`WHERE account_id = ? AND state IN ('pending', 'running', 'aborted', 'sealed')
		AND (expires_at = 0 OR expires_at > ?) AND origin <> 'supplement' AND COALESCE(part, 1) = 1 AND request LIKE ? ORDER BY id DESC`,
		d.who.Account, now, "%"+d.asked.Folder.String()+"%")
	all, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return nil, err
	}
	for i, b := range all {
		a, err := b.asked()
		if err != nil {
			return nil, err
		}
		if have, err := json.Marshal(a.Request); err != nil || bytes.Equal(have, want) {
			return &all[i], err
		}
	}
	return nil, nil //nolint:nilnil // as the comment says
}
