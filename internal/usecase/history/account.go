package history

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// OfAccounts notes what is done about logins, tokens and passwords in the activity of whose they
// are: it is account.Options.Happened.
func OfAccounts(log *activity.Log) func(context.Context, *sqldb.Tx, account.Effect) error {
	var ledger quota.Ledger
	return func(ctx context.Context, tx *sqldb.Tx, e account.Effect) error {
		if e.Account.IsZero() { // of a caller on the machine itself, who has none
			return nil
		}
		if err := ledger.Lock(ctx, tx, e.Account); err != nil { // the log asks for it (E2)
			return err
		}
		return log.Note(tx, activity.Entry{Account: e.Account, Verb: activity.Verb(e.What), By: e.By, Name: e.Name}, dataOf(e))
	}
}

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

// Of lists what an administrator may see of another user: what happened to the user's account, and
// nothing of what the user does with files. Errors: Forbidden, NotFound, CursorInvalid.
func (h *History) Of(ctx context.Context, who drive.Who, user drive.UserID, in Query) (Page, error) {
	s, err := h.enterAccount(ctx, who, user)
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

// enterAccount lets an administrator look at what happened to a user's account.
func (h *History) enterAccount(ctx context.Context, who drive.Who, user drive.UserID) (seer, error) {
	if !who.Admin {
		return seer{}, drive.Fail(drive.Forbidden)
	}
	u, err := h.parts.Users.Find(ctx, h.parts.DB, user)
	if err != nil {
		return seer{}, err
	}
	who.User, who.Account, who.Guest = user, u.Account, false
	return seer{pass: access.Pass{Who: who, Rights: access.All}, all: true}, nil
}
