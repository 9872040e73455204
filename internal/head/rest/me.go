package rest

import (
	"context"

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
			outcomes: []outcome{jsonOutcome[meView](200, "the user")},
		}, {
			id: "changePassword", method: "PUT", path: "/me/password", access: write, action: withJSON(p.setPassword), beforeNewPassword: true,
			summary:  "Change the password. All other logins and all tokens end, and signed links are void.",
			outcomes: []outcome{emptyOutcome(204, "it is changed")}, errors: []drive.Kind{drive.Forbidden, drive.Rate},
		}, {
			id: "prepareKey", method: "POST", path: "/prepare", access: write, action: withoutBody(p.prepare),
			summary:  "Hand out an id that works as an Idempotency-Key for one creation within 12 hours, and never again after.",
			outcomes: []outcome{jsonOutcome[preparedView](200, "the id")},
		},
	}
}

// meView is the JSON in replies to GET /me.
type meView struct {
	User    meUser    `json:"user"`
	Account meAccount `json:"account"`
	Usage   meUsage   `json:"usage"`
	// Pictures names the kinds of files, besides images, that have thumbnails.
	Pictures []string `json:"pictures" doc:"kinds of files, besides images, that this server makes thumbnails of: video, pdf, heic, tiff; depends on the installed programs"`
}

// meUser is the user in meView.
type meUser struct {
	ID    drive.UserID `json:"id"`
	Name  string       `json:"name"`
	Admin bool         `json:"admin"`

	MustChange bool `json:"must_change_password,omitempty" doc:"true: the session can only set a new password; absent otherwise"`
}

// meAccount is the account in meView.
type meAccount struct {
	ID drive.AccountID `json:"id"`
}

// meUsage is the used and the allowed space in replies about an account.
type meUsage struct {
	Total *drive.ByteSize `json:"total"` // bytes; null: unlimited
	Used  drive.ByteSize  `json:"used"`
	Owed  drive.ByteSize  `json:"owed,omitempty" doc:"bytes deleted but still stored; used and owed together may be twice the total (Q6)"`
}

// usageOf converts a balance for replies; only finished bytes count as used.
func usageOf(b quota.Balance) meUsage { return meUsage{b.Total, b.Finished, b.Owed} }

// get serves GET /me. It replies 200 with meView. It fails only with an error of the database.
func (p profile) get(ctx context.Context, c *call) (reply, error) {
	user, err := p.users.Find(ctx, p.db.For(c.who.Account), c.who.User)
	if err != nil {
		return reply{}, err
	}
	balance, err := p.ledger.Get(ctx, p.db.For(c.who.Account), c.who.Account)
	if err != nil {
		return reply{}, err
	}
	return ok(meView{
		User: meUser{user.ID, user.Name, user.Admin, user.MustChange}, Account: meAccount{c.who.Account}, Usage: usageOf(balance),
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

// preparedView is the JSON in replies to POST /prepare.
type preparedView struct {
	PreID     string     `json:"pre_id"`
	ExpiresAt drive.Time `json:"expires_at"`
}

// prepare serves POST /prepare. It replies 200 with preparedView. The id is not stored; it can be
// used as an Idempotency-Key until it expires.
func (p profile) prepare(_ context.Context, c *call) (reply, error) {
	id, expires := p.prepared.New(c.who.User)
	return ok(preparedView{id, expires})
}
