package rest

import "smartdrive/internal/base/drive"

func (a *API) meRoutes() []route {
	return []route{
		{
			method: "GET", path: "/me", need: read, act: plain((*call).getMe),
			does: "Show who the token acts for and how much space is used: the finished files, with trash and old versions.",
			out:  []outcome{gives[meView](200, "the user")},
		}, {
			method: "PUT", path: "/me/password", need: write, act: takes((*call).setPassword),
			does: "Change the password. All other logins and all tokens end, and signed links are void.",
			out:  []outcome{nothing(204, "it is changed")}, fails: []drive.Kind{drive.Forbidden, drive.Rate},
		}, {
			method: "POST", path: "/prepare", need: write, act: plain((*call).prepare),
			does: "Hand out an id that works as an Idempotency-Key for one creation within 12 hours, and never again after.",
			out:  []outcome{gives[preparedView](200, "the id")},
		},
	}
}

type meView struct {
	User    meUser    `json:"user"`
	Account meAccount `json:"account"`
	Usage   meUsage   `json:"usage"`
}

type meUser struct {
	ID    drive.UserID `json:"id"`
	Name  string       `json:"name"`
	Admin bool         `json:"admin"`
}

type meAccount struct {
	ID drive.AccountID `json:"id"`
}

type meUsage struct {
	Total *drive.ByteSize `json:"total"` // bytes; null: unlimited
	Used  drive.ByteSize  `json:"used"`
}

func (c *call) getMe() (reply, error) {
	user, err := c.Users.Find(c.ctx(), c.DB, c.who.User)
	if err != nil {
		return reply{}, err
	}
	balance, err := c.Ledger.Get(c.ctx(), c.DB, c.who.Account)
	if err != nil {
		return reply{}, err
	}
	return ok(meView{
		User: meUser{user.ID, user.Name, user.Admin}, Account: meAccount{c.who.Account}, Usage: meUsage{balance.Total, balance.Finished},
	})
}

type passwordBody struct {
	Current  string `json:"current" doc:"the password as it is"`
	Password string `json:"password" doc:"8 to 1,024 bytes"`
}

func (c *call) setPassword(in *passwordBody) (reply, error) {
	return empty(c.Sessions.ChangePassword(c.ctx(), c.who, in.Current, in.Password, c.client()))
}

type preparedView struct {
	PreID     string     `json:"pre_id"`
	ExpiresAt drive.Time `json:"expires_at"`
}

func (c *call) prepare() (reply, error) {
	id, expires := c.Prepared.New(c.who.User)
	return ok(preparedView{id, expires})
}
