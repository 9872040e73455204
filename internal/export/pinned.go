package export

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// References of batches to files of the drive are not charged again. Without a limit, an account
// could export, delete and replace files repeatedly and keep all of them for free. So an account
// with a quota may have
//
//   - no new batch if its existing batches reference at least as many bytes as its quota;
//   - at most twice its quota referenced by all its batches. Files that exist at one time never exceed the quota once, so only files that
//     are replaced while batches wait or run reach the second limit; such an entry fails with reason quota.
//
// A content counts once, in however many entries it occurs. A batch queries the referenced bytes
// again after each eighth of the quota it adds, so each concurrently running batch may exceed the
// limit by that much.

// pinnedBytes returns the bytes of files of the drive that the batches of an account reference
// without a charge, each content once.
func pinnedBytes(ctx context.Context, q sqldb.Querier, account drive.AccountID) (sum drive.ByteSize, err error) {
	err = q.QueryRow(ctx, `SELECT COALESCE(SUM(size), 0) FROM (SELECT MAX(size) AS size FROM export_pins WHERE account_id = ? AND charged = 0
		GROUP BY blob_id) AS held`, account).Scan(&sum)
	if err != nil {
		return 0, fmt.Errorf("add up what batches hold: %w", err)
	}
	return sum, nil
}

// checkPinnedQuota returns Quota if the existing batches reference at least as many uncharged bytes
// as the account's quota. An account without a quota has no limit.
func (c *creator) checkPinnedQuota(ctx context.Context, q sqldb.Querier, account drive.AccountID) error {
	balance, err := c.opt.Ledger.Get(ctx, q, account)
	if err != nil || balance.Total == nil {
		return err
	}
	sum, err := pinnedBytes(ctx, q, account)
	if err == nil && sum >= *balance.Total && sum > 0 {
		err = drive.Fail(drive.Quota, "needed", sum+1, "available", *balance.Total)
	}
	return err
}

// pinsOver is the multiple of the account's quota that all of its batches together may reference
// without a charge. A running batch queries the sum again after 1/lookPart of the quota.
const (
	pinsOver = 2 // multiple of the quota that all batches may reference
	lookPart = 8 // a batch queries again after 1/lookPart of the quota
)

// budget is how many uncharged bytes a batch may reference before it must query the limit of the
// account again.
type budget struct {
	unlimited bool
	left      drive.ByteSize
}

// limitPinned enforces the limit of uncharged bytes that the account's batches may reference: it
// moves pins of the page that exceed it to the failures of the page. It counts against r.budget and
// queries only when that is used up.
func (r *run) limitPinned(ctx context.Context, page *outcomes) error {
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
	return r.requeryPinned(ctx, page)
}

// requeryPinned reads the quota and the pinned bytes again, sets r.budget, and moves the pins of
// the page that exceed it to the failures. limitPinned calls it for a page larger than the
// remaining budget.
func (r *run) requeryPinned(ctx context.Context, page *outcomes) error {
	balance, err := r.opt.Ledger.Get(ctx, r.opt.DB, r.b.Account)
	if err != nil {
		return err
	}
	if r.budget.unlimited = balance.Total == nil; r.budget.unlimited {
		return nil
	}
	sum, err := pinnedBytes(ctx, r.opt.DB, r.b.Account)
	if err != nil {
		return err
	}
	room := *balance.Total*pinsOver - sum
	have, err := r.pinnedBlobs(ctx, page.pins)
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

// pinnedBlobs returns the contents of pins, of which there is at least one, that batches of the
// account already reference without a charge. The map has only true values.
func (r *run) pinnedBlobs(ctx context.Context, pins []pin) (map[drive.BlobID]bool, error) {
	args := []any{r.b.Account}
	for _, p := range pins {
		args = append(args, p.blob)
	}
	rows, err := r.opt.DB.Query(ctx, "SELECT DISTINCT blob_id FROM export_pins WHERE account_id = ? AND charged = 0 AND blob_id IN ("+
		sqldb.Placeholders(len(pins))+")", args...)
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
