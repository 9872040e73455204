package export

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// What batches hold of the drive is not charged a second time. Without a bound, files could be
// exported, deleted and replaced again and again, and all of them be kept for nothing. So an
// account that has a limit may have
//
//   - no new batch once those there hold as much as the account may have;
//   - in all its batches together twice that. Files that were there at one time are never more than once the limit, so only what was
//     replaced while batches waited or were collected comes up against the second bound; such an entry fails for want of quota.
//
// A content counts once, however many entries of however many batches have it. A batch looks again
// at what is held each time when it has added an eighth of the limit; so each one that is collected
// at that moment may go beyond the bound by as much.

// pinned is how many bytes of the drive the batches of an account hold.
func pinned(ctx context.Context, q sqldb.Querier, account drive.AccountID) (sum drive.ByteSize, err error) {
	err = q.QueryRow(ctx, `SELECT COALESCE(SUM(size), 0) FROM (SELECT MAX(size) AS size FROM export_pins WHERE account_id = ? AND charged = 0
		GROUP BY blob_id) AS held`, account).Scan(&sum)
	if err != nil {
		return 0, fmt.Errorf("add up what batches hold: %w", err)
	}
	return sum, nil
}

// roomForBatch refuses another batch when those there hold as much as the account may have.
func (o *orders) roomForBatch(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	balance, err := o.opt.Ledger.Get(ctx, tx, account)
	if err != nil || balance.Total == nil {
		return err
	}
	sum, err := pinned(ctx, tx, account)
	if err == nil && sum >= *balance.Total && sum > 0 {
		err = drive.Fail(drive.Quota, "needed", sum+1, "available", *balance.Total)
	}
	return err
}

const (
	pinsOver = 2 // times the limit: what all batches may hold
	lookPart = 8 // of the limit: after so much a batch looks again
)

// budget is how much a batch may still add before it looks again.
type budget struct {
	unlimited bool
	left      drive.ByteSize
}

// within takes the entries of a page that fit into what the account's batches may hold, and makes
// failures of the others.
func (r *run) within(ctx context.Context, page *dealt) error {
	var bytes drive.ByteSize
	for _, p := range page.pins {
		if p.charged == 0 {
			bytes += p.size
		}
	}
	if r.budget.unlimited || bytes == 0 {
		return nil
	}
	if bytes <= r.budget.left {
		r.budget.left -= bytes
		return nil
	}
	return r.withinLimit(ctx, page)
}

// withinLimit is within for a page that is more than the batch may add unseen.
func (r *run) withinLimit(ctx context.Context, page *dealt) error {
	balance, err := r.opt.Ledger.Get(ctx, r.opt.DB, r.b.Account)
	if err != nil {
		return err
	}
	if r.budget.unlimited = balance.Total == nil; r.budget.unlimited {
		return nil
	}
	sum, err := pinned(ctx, r.opt.DB, r.b.Account)
	if err != nil {
		return err
	}
	room := *balance.Total*pinsOver - sum
	have, err := r.heldOf(ctx, page.pins)
	if err != nil {
		return err
	}
	var fit []pin
	for _, p := range page.pins {
		switch {
		case p.charged > 0 || have[p.blob]:
		case p.size <= room:
			room -= p.size
			have[p.blob] = true
		default:
			page.errors = append(page.errors, failure{w: p.w, reason: reasonQuota})
			continue
		}
		fit = append(fit, p)
	}
	page.pins = fit
	r.budget.left = min(max(0, room), *balance.Total/lookPart)
	return nil
}

// heldOf says which contents of entries the account's batches hold already.
func (r *run) heldOf(ctx context.Context, pins []pin) (map[drive.BlobID]bool, error) {
	args := []any{r.b.Account}
	for _, p := range pins {
		args = append(args, p.blob)
	}
	rows, err := r.opt.DB.Query(ctx, "SELECT DISTINCT blob_id FROM export_pins WHERE account_id = ? AND charged = 0 AND blob_id IN ("+
		sqldb.Marks(len(pins))+")", args...)
	all, err := sqldb.Scan(rows, err, func(id *drive.BlobID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, fmt.Errorf("look for what batches hold: %w", err)
	}
	have := make(map[drive.BlobID]bool, len(all))
	for _, id := range all {
		have[id] = true
	}
	return have, nil
}
