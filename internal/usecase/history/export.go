package history

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/engine/sqldb"
)

// Export is all of a list, the oldest entry first, read in pieces. It is for one goroutine. Each
// piece asks once more whether the caller may see it, so it ends with an error where a role does.
type Export struct {
	enter func(context.Context) (seer, error)
	read  func(context.Context, seer, activity.Position) (some []activity.Entry, more bool, err error)
	h     *History
	in    Query
	at    activity.Position
}

// exportPage is how many entries one statement of an export reads.
const exportPage = 500

// Export begins an export of what List lists, after the entry with the id after (empty: from the
// first one on), up to what there is when it comes to its end. Errors: those of List, CursorInvalid
// for an id that was not given out by the same account, and Gone when entries after it may have
// been purged.
func (h *History) Export(ctx context.Context, who drive.Who, in Query, after string) (*Export, error) {
	e := &Export{h: h, in: in}
	e.enter = func(ctx context.Context) (seer, error) { return h.enter(ctx, who, in) }
	e.read = e.ofAccount
	return e, e.begin(ctx, after)
}

// ExportOf is Export of what Of lists.
func (h *History) ExportOf(ctx context.Context, who drive.Who, user drive.UserID, in Query, after string) (*Export, error) {
	in.security, in.Node, in.Place = true, drive.NodeID{}, ""
	e := &Export{h: h, in: in}
	e.enter = func(ctx context.Context) (seer, error) { return h.enterAccount(ctx, who, user) }
	e.read = e.ofAccount
	return e, e.begin(ctx, after)
}

// ExportAll is ExportOf for all users together. Where several instances write, it ends a minute
// ago: only then is nothing between two entries still on its way. Errors: those of Export, and
// Forbidden.
func (h *History) ExportAll(ctx context.Context, who drive.Who, in Query, after string) (*Export, error) {
	in.security, in.Node, in.Place = true, drive.NodeID{}, ""
	e := &Export{h: h, in: in}
	e.enter = func(context.Context) (seer, error) {
		if !who.Admin {
			return seer{}, drive.Fail(drive.Forbidden)
		}
		return seer{pass: access.Pass{Who: drive.Who{User: who.User}, Rights: access.All}, all: true, every: true}, nil
	}
	e.read = func(ctx context.Context, _ seer, at activity.Position) ([]activity.Entry, bool, error) {
		return h.parts.Log.AfterAll(ctx, h.parts.DB, at, exportPage)
	}
	return e, e.begin(ctx, after)
}

func (e *Export) begin(ctx context.Context, after string) error {
	s, err := e.enter(ctx)
	if err != nil {
		return err
	}
	e.at, err = e.h.parts.Log.Place(ctx, e.h.querier(s), s.pass.Who.Account, after)
	return err
}

// querier is where the entries are read that somebody may see.
func (h *History) querier(s seer) sqldb.Querier {
	if s.every {
		return h.parts.DB
	}
	return h.parts.DB.For(s.pass.Who.Account)
}

func (e *Export) ofAccount(ctx context.Context, s seer, at activity.Position) (some []activity.Entry, more bool, err error) {
	if q := e.h.querier(s); e.in.Node.IsZero() {
		some, err = e.h.parts.Log.After(ctx, q, s.pass.Who.Account, at, exportPage)
	} else {
		some, err = e.h.parts.Log.AfterAt(ctx, q, e.in.Node, at, exportPage)
	}
	return some, len(some) == exportPage, err
}

// Next returns the next piece. It may be empty before the end: more says whether there is another
// one.
func (e *Export) Next(ctx context.Context) (items []Happened, more bool, err error) {
	s, err := e.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	some, more, err := e.read(ctx, s, e.at)
	if err != nil || len(some) == 0 {
		return nil, false, err
	}
	e.at = some[len(some)-1].ID
	q := e.h.querier(s)
	seen, err := e.h.visible(ctx, q, s, e.in, some)
	if err != nil {
		return nil, false, err
	}
	items, err = e.h.show(ctx, q, s, seen)
	return items, more, err
}
