package ingest

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Open says which open conflicts are meant; empty fields: all.
type Open struct {
	Source string
	IDs    []drive.ConflictID // at most MostSettled

	bundle drive.BundleID // that the later side came in
}

// MostSettled is how many conflicts one call settles: some seconds.
const MostSettled = 1000

// SettleMany decides up to MostSettled open conflicts of the caller's account in one way, the
// oldest first, each in a transaction of its own: a call that was broken off has settled some, and
// the next one goes on. Of several conflicts of one document the last that is kept counts. It
// returns how many were settled, and how many of those that are meant are still open.
func (in *Intake) SettleMany(ctx context.Context, who drive.Who, o Open, keep Keep) (settled, left int64, err error) {
	return in.library.settleMany(ctx, who, o, keep)
}

func (in *library) settleMany(ctx context.Context, who drive.Who, o Open, keep Keep) (settled, left int64, err error) {
	if len(o.IDs) > MostSettled {
		return 0, 0, drive.Bad("conflicts", drive.OutOfRange, "min", 1, "max", MostSettled, "sent", len(o.IDs))
	}
	from, args := o.from(who.Account)
	rows, err := in.opt.DB.Query(ctx, "SELECT c.id, c.document_id"+from+" ORDER BY c.id LIMIT ?", append(args, MostSettled)...)
	type open struct {
		id       drive.ConflictID
		document drive.DocumentID
	}
	all, err := sqldb.Scan(rows, err, func(c *open, scan func(...any) error) error { return scan(&c.id, &c.document) })
	if err != nil {
		return 0, 0, fmt.Errorf("list open conflicts: %w", err)
	}
	for _, c := range all {
		err := in.settleOne(ctx, who, c.document, c.id, keep)
		if drive.IsKind(err, drive.WrongState, drive.NotFound) {
			continue // somebody else was faster
		}
		if err != nil {
			return settled, 0, err
		}
		settled++
	}
	if len(all) < MostSettled {
		return settled, 0, nil
	}
	return settled, left, in.opt.DB.QueryRow(ctx, "SELECT COUNT(*)"+from, args...).Scan(&left)
}

// from is the part of a statement that finds them.
func (o Open) from(account drive.AccountID) (string, []any) {
	from, args := " FROM document_conflicts c JOIN documents d ON d.id = c.document_id WHERE c.account_id = ? AND c.state = 'open'", []any{account}
	if o.Source != "" {
		from, args = from+" AND d.source = ?", append(args, o.Source)
	}
	if !o.bundle.IsZero() {
		from, args = from+" AND c.bundle_id = ?", append(args, o.bundle)
	}
	if len(o.IDs) > 0 {
		from += " AND c.id IN (" + sqldb.Marks(len(o.IDs)) + ")"
		for _, id := range o.IDs {
			args = append(args, id)
		}
	}
	return from, args
}

// settleByRule settles the conflicts that a bundle has brought as the rules of its source say.
func (in *library) settleByRule(ctx context.Context, b *row, keep Keep) error {
	if keep == "" {
		return nil
	}
	for left := int64(1); left > 0; {
		var err error
		if _, left, err = in.settleMany(ctx, drive.Who{Account: b.Account}, Open{bundle: b.ID}, keep); err != nil {
			return fmt.Errorf("settle the conflicts of bundle %s: %w", b.ID, err)
		}
	}
	return nil
}
