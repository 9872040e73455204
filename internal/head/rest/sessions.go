package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb"
)

// sessions serves the routes for logins and for tokens of programs.
type sessions struct {
	sessions *account.Sessions
	users    *account.Users
	db       *sqldb.DB
}

// routes returns the declarations of the routes that sessions serves. It registers nothing.
func (s sessions) routes() []route {
	return []route{
		{
			id: "createSession", method: "POST", path: "/sessions", access: open, action: withJSON(s.login),
			summary:  "Log in. The token is good for 30 days after it was last used. With `cookie`, for browsers, it is not shown but set as a cookie: HttpOnly, SameSite=Lax; what changes something is then taken only from pages of this server, and a request with `X-Smartdrive-User`, the id of a user, is 401 where the cookie is by now that of another user.",
			outcomes: []outcome{jsonOutcome[loginView](201, "the token, shown this once, or with `cookie` the user")}, errors: []drive.Kind{drive.Unauthenticated, drive.Rate, drive.CrossOrigin},
		}, {
			id: "listSessions", method: "GET", path: "/sessions", access: read, action: withoutBody(s.list), query: []param{limitParam, cursor},
			summary:  "List the logins, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[sessionView]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "deleteSession", method: "DELETE", path: "/sessions/{id}", access: write, action: withoutBody(s.logout), beforeNewPassword: true,
			summary:  "End a login; `current` is the one that asks.",
			outcomes: []outcome{emptyOutcome(204, "it is over")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// loginBody is the JSON request body of POST /sessions.
type loginBody struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Cookie   bool   `json:"cookie,omitempty" doc:"true: sets a cookie instead of returning the token"`
}

// loginView is a new login. It has either the token, or with a cookie the user.
type loginView struct {
	ID        drive.SessionID `json:"id"`
	Token     string          `json:"token,omitempty"`
	User      *api.MeUser     `json:"user,omitempty"` // set if the login is in a cookie
	ExpiresAt *drive.Time     `json:"expires_at"`     // null: never

	MustChange bool `json:"must_change_password,omitempty" doc:"true: an administrator chose the password, and every request other than PUT /me/password is 403 forbidden with reason new-password; absent otherwise"`
}

// grantView is the JSON in replies to POST /tokens.
type grantView struct {
	ID        drive.SessionID `json:"id"`
	Token     string          `json:"token"`
	ExpiresAt *drive.Time     `json:"expires_at"` // null: never
}

// grant converts a new session or token, with its secret, for the reply that shows it once.
func grant(g account.Granted) grantView {
	return grantView{ID: g.ID, Token: g.Secret, ExpiresAt: timeOrNull(g.ExpiresAt)}
}

// timeOrNull returns a pointer to t; nil, which is null in JSON, for the zero time.
func timeOrNull(t drive.Time) *drive.Time {
	if t == 0 {
		return nil
	}
	return &t
}

// login serves POST /sessions. It replies 201 with loginView. Beyond the errors common to all
// routes it fails with drive.Unauthenticated, drive.Rate or drive.CrossOrigin. With "cookie" the
// token is set as a cookie and not shown; a request from another site is then refused with
// drive.CrossOrigin.
func (s sessions) login(ctx context.Context, c *call, in *loginBody) (reply, error) {
	if in.Cookie { // another site must not log a browser in to a foreign account
		if err := c.checkOrigin(c.r); err != nil {
			return reply{}, err
		}
	}
	g, err := s.sessions.Login(ctx, account.Login{
		Name: in.Name, Password: in.Password, Client: c.client(), Agent: c.r.UserAgent(),
	})
	if err != nil {
		return reply{}, err
	}
	return s.granted(ctx, c, g, in.Cookie)
}

// granted replies with a new login, and sets it as a cookie if cookie is true. It fails if the user
// cannot be read.
func (s sessions) granted(ctx context.Context, c *call, g account.Granted, cookie bool) (reply, error) {
	view := loginView{ID: g.ID, ExpiresAt: timeOrNull(g.ExpiresAt), MustChange: g.MustChange}
	if !cookie {
		view.Token = g.Secret
		return created(view)
	}
	user, err := s.users.Find(ctx, s.db, g.User)
	if err != nil {
		return reply{}, err
	}
	shown := showMe(user)
	view.User = &shown
	c.setCookie(g.Secret)
	return created(view)
}

// sessionView is the JSON in replies to GET /sessions.
type sessionView struct {
	ID        drive.SessionID `json:"id"`
	Name      string          `json:"name"` // name that the client gave itself
	CreatedAt drive.Time      `json:"created_at"`
	SeenAt    drive.Time      `json:"seen_at"` // exact to an hour
	ExpiresAt drive.Time      `json:"expires_at"`
	Current   bool            `json:"current"` // the login of this request
}

// list serves GET /sessions. It replies 200 with api.Page[sessionView]. Beyond the errors common
// to all routes it fails with drive.CursorInvalid.
func (s sessions) list(ctx context.Context, c *call) (reply, error) {
	logins, err := s.sessions.List(ctx, c.who, account.KindLogin)
	if err != nil {
		return reply{}, err
	}
	views := make([]sessionView, len(logins))
	for i, s := range logins {
		views[i] = sessionView{s.ID, s.Name, s.CreatedAt, s.SeenAt, s.ExpiresAt, s.ID == c.who.Session}
	}
	return pageOf(c, views, func(s sessionView) string { return s.ID.String() })
}

// logout serves DELETE /sessions/{id}. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.NotFound. The id "current" ends the login of the request and
// deletes its cookie.
func (s sessions) logout(ctx context.Context, c *call) (reply, error) {
	if id := c.r.PathValue("id"); id != "current" && id != c.who.Session.String() {
		return s.end(ctx, c, account.KindLogin)
	}
	err := s.sessions.Delete(ctx, c.who, account.KindLogin, c.who.Session)
	if err == nil && sentCookie(c.r) != "" {
		c.setCookie("")
	}
	return empty(err)
}

// end ends the login or token whose id is in the path.
func (s sessions) end(ctx context.Context, c *call, kind account.Kind) (reply, error) {
	id, err := drive.ParseID[drive.SessionID](c.r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	return empty(s.sessions.Delete(ctx, c.who, kind, id))
}
