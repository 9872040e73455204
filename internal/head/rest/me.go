package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/thumb"
)

// profile serves the routes for the caller's own user.
type profile struct {
	users    *account.Users
	sessions *account.Sessions
	prepared *idem.PreparedIDs
	ledger   quota.Ledger
	db       *sqldb.DB // for reading the user and the balance
	pictures *thumb.Maker
}

// routes returns the declarations of the routes that profile serves. It registers nothing.
func (p profile) routes() []route {
	return []route{
		{
			id: "getMe", method: "GET", path: "/me", access: read, action: withoutBody(p.get), beforeNewPassword: true,
			summary:  "Show who the token acts for and how much space is used: the finished files, with trash and old versions.",
			outcomes: []outcome{jsonOutcome[api.Me](200, "the user")},
		}, {
			id: "changePassword", method: "PUT", path: "/me/password", access: write, action: withJSON(p.setPassword), beforeNewPassword: true,
			summary:  "Change the password. All other logins and all tokens end, and signed links are void.",
			outcomes: []outcome{emptyOutcome(204, "it is changed")}, errors: []drive.Kind{drive.Forbidden, drive.Rate},
		}, {
			id: "prepareKey", method: "POST", path: "/prepare", access: write, action: withoutBody(p.prepare),
			summary:  "Hand out an id that works as an Idempotency-Key for one creation within 12 hours, and never again after.",
			outcomes: []outcome{jsonOutcome[api.PreparedID](200, "the id")},
		},
	}
}

// usageOf converts a balance for replies; only finished bytes count as used.
func usageOf(b quota.Balance) api.Usage {
	return api.Usage{Total: (*int64)(b.Total), Used: int64(b.Finished), Owed: int64(b.Owed)}
}

// showMe returns the wire form of the caller's user.
func showMe(u account.User) api.MeUser {
	return api.MeUser{ID: u.ID.String(), Name: u.Name, Admin: u.Admin, MustChange: u.MustChange}
}

// get serves GET /me. It replies 200 with api.Me. It fails only with an error of the database.
func (p profile) get(ctx context.Context, c *call) (reply, error) {
	user, err := p.users.Find(ctx, p.db.For(c.who.Account), c.who.User)
	if err != nil {
		return reply{}, err
	}
	balance, err := p.ledger.Get(ctx, p.db.For(c.who.Account), c.who.Account)
	if err != nil {
		return reply{}, err
	}
	return ok(api.Me{
		User: showMe(user), Account: api.MeAccount{ID: c.who.Account.String()}, Usage: usageOf(balance),
		Pictures: p.pictures.Kinds(),
	})
}

// passwordBody is the JSON request body of PUT /me/password.
type passwordBody struct {
	Current  string `json:"current" doc:"the current password"`
	Password string `json:"password" doc:"10 to 1,024 bytes"`
}

// setPassword serves PUT /me/password. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.Forbidden or drive.Rate. All other logins, all tokens and signed
// links end. A wrong current password is drive.Forbidden.
func (p profile) setPassword(ctx context.Context, c *call, in *passwordBody) (reply, error) {
	return empty(p.sessions.ChangePassword(ctx, c.who, in.Current, in.Password, c.client()))
}

// prepare serves POST /prepare. It replies 200 with api.PreparedID. The id is not stored; it can be
// used as an Idempotency-Key until it expires.
func (p profile) prepare(_ context.Context, c *call) (reply, error) {
	id, expires := p.prepared.New(c.who.User)
	return ok(api.PreparedID{PreID: id, ExpiresAt: showTime(expires)})
}
