package export

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// catalog reads batches and their failures for the users of the account that owns them. It writes
// nothing.
type catalog struct{ *core }

// Get returns a batch of the caller's account. An unknown id and a batch of another account are
// NotFound.
func (e *Exports) Get(ctx context.Context, who drive.Who, id drive.ExportID) (View, error) {
	return e.catalog.get(ctx, who, id)
}

// get returns the view of a batch of the account at the current time, or NotFound.
func (c *catalog) get(ctx context.Context, who drive.Who, id drive.ExportID) (View, error) {
	b, err := c.find(ctx, c.opt.DB.For(who.Account), "WHERE id = ? AND account_id = ?", id, who.Account)
	if err != nil {
		return View{}, err
	}
	now, err := c.now(ctx)
	return b.view(now), err
}

// List returns up to limit batches of the caller's account with an id less than before, newest
// first. A zero before starts with the newest.
func (e *Exports) List(ctx context.Context, who drive.Who, before drive.ExportID, limit int) ([]View, error) {
	return e.catalog.list(ctx, who, before, limit)
}

// list returns up to limit batches of the account, newest first, without their requests. before is
// the id of the last batch of the previous page; zero starts at the newest.
func (c *catalog) list(ctx context.Context, who drive.Who, before drive.ExportID, limit int) ([]View, error) {
	now, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	where, args := "WHERE account_id = ? ORDER BY id DESC LIMIT ?", []any{who.Account, limit}
	if !before.IsZero() {
		where, args = "WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?", []any{who.Account, before, limit}
	}
	return c.views(ctx, who, now, where, args...)
}

// ListSet returns the parts of a set of the caller's account, by part and revision. An unknown set
// has an empty result and no error.
func (e *Exports) ListSet(ctx context.Context, who drive.Who, set drive.ExportID) ([]View, error) {
	return e.catalog.listSet(ctx, who, set)
}

// listSet returns the batches of a set by part and revision. It returns an empty result, and no
// error, if the account has no such set.
func (c *catalog) listSet(ctx context.Context, who drive.Who, set drive.ExportID) ([]View, error) {
	now, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	return c.views(ctx, who, now, "WHERE account_id = ? AND set_id = ? ORDER BY part, revision", who.Account, set)
}

// views returns, as of now, the batches that match where, the end of a SELECT on exports, without
// their stored requests.
func (c *catalog) views(ctx context.Context, who drive.Who, now drive.Time, where string, args ...any) ([]View, error) {
	rows, err := c.opt.DB.For(who.Account).Query(ctx, selectViews+where, args...)
	all, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	views := make([]View, len(all))
	for i, b := range all {
		views[i] = b.view(now)
	}
	return views, nil
}

// Failure is an entry that could not be collected, as shown to the owner.
type Failure struct {
	N      int64      `json:"n" doc:"position in the list"`
	Doc    string     `json:"id" doc:"id from the request"`
	Path   string     `json:"path"`
	Reason string     `json:"reason"`
	Detail string     `json:"detail,omitempty"`
	At     drive.Time `json:"at"`
}

// Errors returns up to limit failures of a batch in list order, starting after entry number after;
// 0 starts at the first. It returns NotFound for a batch of another account.
func (e *Exports) Errors(ctx context.Context, who drive.Who, id drive.ExportID, after int64, limit int) ([]Failure, error) {
	return e.catalog.errors(ctx, who, id, after, limit)
}

// errors returns up to limit failures of a batch by entry number. after is the cursor, the number
// of the last entry of the previous page, 0 at first. It returns NotFound for a batch of another
// account.
func (c *catalog) errors(ctx context.Context, who drive.Who, id drive.ExportID, after int64, limit int) ([]Failure, error) {
	if _, err := c.get(ctx, who, id); err != nil {
		return nil, err
	}
	rows, err := c.opt.DB.For(who.Account).Query(ctx, "SELECT n, doc, path, reason, detail, at FROM export_errors WHERE export_id = ? AND n > ? ORDER BY n LIMIT ?",
		id, after, limit)
	all, err := sqldb.Scan(rows, err, func(f *Failure, scan func(...any) error) error {
		return scan(&f.N, &f.Doc, &f.Path, &f.Reason, &f.Detail, &f.At)
	})
	if err != nil {
		return nil, fmt.Errorf("list the failures of batch %s: %w", id, err)
	}
	return all, nil
}
