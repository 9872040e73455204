package history

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Export reads all entries of a list in pieces, oldest first. It is for use by one goroutine. Each
// piece authorizes the caller again, so an export fails when access ends.
type Export struct {
	authorize func(context.Context) (viewer, error)
	read      func(context.Context, viewer, activity.Position) (some []activity.Entry, more bool, err error)
	h         *History
	in        Query
	at        activity.Position
}

// exportPage is how many entries one statement of an export reads.
const exportPage = 500

// Export starts an export of the entries that match in, after the entry with the event id after
// (empty: from the first), up to the newest. It fails with NotFound if the caller may not see the
// node or place, with CursorInvalid for an id that is not of this account, and with Gone if entries
// after it may have been purged.
func (h *History) Export(ctx context.Context, who drive.Who, in Query, after string) (*Export, error) {
	e := &Export{h: h, in: in}
	e.authorize = func(ctx context.Context) (viewer, error) { return h.authorize(ctx, who, in) }
	e.read = e.readAccount
	return e, e.start(ctx, after)
}

// ExportSecurity exports the security entries of a user's account that ListSecurity lists, after
// the entry with the event id after (empty: from the first). It fails with Forbidden unless the
// caller is an administrator, with NotFound, with CursorInvalid for an id that is not of this
// account, and with Gone if entries after it may have been purged.
func (h *History) ExportSecurity(ctx context.Context, who drive.Who, user drive.UserID, in Query, after string) (*Export, error) {
	in.security, in.Node, in.Place = true, drive.NodeID{}, ""
	e := &Export{h: h, in: in}
	e.authorize = func(ctx context.Context) (viewer, error) { return h.authorizeAccount(ctx, who, user) }
	e.read = e.readAccount
	return e, e.start(ctx, after)
}

// ExportAllSecurity exports the security entries of all users, after the entry with the event id
// after (empty: from the first). With several instances it ends a minute before now, because later
// entries may still be uncommitted. It fails with Forbidden unless the caller is an administrator,
// with CursorInvalid for an invalid id, and with Gone if entries after it may have been purged.
func (h *History) ExportAllSecurity(ctx context.Context, who drive.Who, in Query, after string) (*Export, error) {
	in.security, in.Node, in.Place = true, drive.NodeID{}, ""
	e := &Export{h: h, in: in}
	e.authorize = func(context.Context) (viewer, error) {
		if !who.Admin {
			return viewer{}, drive.Fail(drive.Forbidden)
		}
		return viewer{pass: access.Pass{Who: drive.Who{User: who.User}, Rights: access.All}, all: true, allAccounts: true}, nil
	}
	e.read = func(ctx context.Context, _ viewer, at activity.Position) ([]activity.Entry, bool, error) {
		return h.parts.Log.ListSettledAfter(ctx, h.parts.DB, at, exportPage)
	}
	return e, e.start(ctx, after)
}

// start authorizes the caller and sets e.at to the position of the entry after, the last that the
// client has; "" is the beginning. It returns the errors of authorize, CursorInvalid for an unknown
// entry, and Gone if entries after it may have been purged.
func (e *Export) start(ctx context.Context, after string) error {
	s, err := e.authorize(ctx)
	if err != nil {
		return err
	}
	e.at, err = e.h.parts.Log.PositionAfter(ctx, e.h.querier(s), s.pass.Who.Account, after)
	return err
}

// querier returns the database from which the entries that s sees are read: that of the account, or
// the whole one.
func (h *History) querier(s viewer) sqldb.Querier {
	if s.allAccounts {
		return h.parts.DB
	}
	return h.parts.DB.For(s.pass.Who.Account)
}

// readAccount reads up to exportPage entries after the position at, in order, of the node of the
// query or of the whole account. more reports whether the page is full, so that more may follow.
func (e *Export) readAccount(ctx context.Context, s viewer, at activity.Position) (some []activity.Entry, more bool, err error) {
	if q := e.h.querier(s); e.in.Node.IsZero() {
		some, err = e.h.parts.Log.ListAfter(ctx, q, s.pass.Who.Account, at, exportPage)
	} else {
		some, err = e.h.parts.Log.ListAfterAt(ctx, q, e.in.Node, at, exportPage)
	}
	return some, len(some) == exportPage, err
}

// Next authorizes the caller again and returns the next piece, which may be empty; more tells
// whether there is another one. After an error the caller must begin a new export after the last
// entry that it has.
func (e *Export) Next(ctx context.Context) (items []Entry, more bool, err error) {
	s, err := e.authorize(ctx)
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
