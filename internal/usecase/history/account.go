package history

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// AccountHook returns a hook for account.Options.Happened that records security events in the
// activity of the user's account. It does nothing for a user without an account.
func AccountHook(log *activity.Log) func(context.Context, *sqldb.Tx, account.Effect) error {
	var ledger quota.Ledger
	return func(ctx context.Context, tx *sqldb.Tx, e account.Effect) error {
		if e.Account.IsZero() { // a local administrator without an account
			return nil
		}
		if err := ledger.Lock(ctx, tx, e.Account); err != nil { // required by the log (E2)
			return err
		}
		return log.Record(tx, activity.Entry{Account: e.Account, Verb: activity.Verb(e.What), By: e.By, Name: e.Name}, dataOf(e))
	}
}

// dataOf returns the data of an entry for a security event.
func dataOf(e account.Effect) map[string]any {
	data := map[string]any{}
	if !e.Session.IsZero() {
		data["session"] = e.Session
	}
	if e.Scopes != 0 {
		data["scopes"], data["heads"] = e.Scopes.Names(), e.Heads.Names()
	}
	if e.All {
		data["all"] = true
	}
	if e.Times > 0 {
		data["times"], data["from"] = e.Times, e.From
	}
	return data
}

// ListSecurity lists, for an administrator, the security events of another user's account, without
// the user's file activity. It fails with Forbidden for other callers, with NotFound, with
// BadRequest for a limit out of range, and with CursorInvalid.
func (h *History) ListSecurity(ctx context.Context, who drive.Who, user drive.UserID, in Query) (Page, error) {
	s, err := h.authorizeAccount(ctx, who, user)
	if err != nil {
		return Page{}, err
	}
	limit, before, err := in.page()
	if err != nil {
		return Page{}, err
	}
	in.security, in.Node = true, drive.NodeID{}
	return h.page(ctx, s, in, before, limit)
}

// authorizeAccount checks that the caller is an administrator and returns a view of the user's
// account. It fails with Forbidden for other callers, and with NotFound for an unknown user.
func (h *History) authorizeAccount(ctx context.Context, who drive.Who, user drive.UserID) (viewer, error) {
	if !who.Admin {
		return viewer{}, drive.Fail(drive.Forbidden)
	}
	u, err := h.parts.Users.Find(ctx, h.parts.DB, user)
	if err != nil {
		return viewer{}, err
	}
	who.User, who.Account, who.Guest = user, u.Account, false
	return viewer{pass: access.Pass{Who: who, Rights: access.All}, all: true}, nil
}
