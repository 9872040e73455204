package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/usecase/signon"
)

// signOns serves logins by an identity provider.
type signOns struct {
	sessions

	provider *signon.SignOn // nil: no identity provider
}

// signOnPage is the path below the base URL that the provider redirects to after a login. It is
// registered with providers, so it must not change.
const signOnPage = "/sign-on"

// routes returns the declarations of the routes that signOns serves. It registers nothing.
func (s signOns) routes() []route {
	failing := []drive.Kind{drive.NotFound, drive.Gone, drive.Forbidden, drive.Rate, drive.Unavailable}
	return []route{
		{
			id: "getSignOn", method: "GET", path: "/sign-on", access: open, action: withoutBody(s.show),
			summary:  "Say whether people can log in by an identity provider.",
			outcomes: []outcome{jsonOutcome[signOnView](200, "the provider, or null")},
		}, {
			id: "startSignOn", method: "POST", path: "/sign-on", access: open, action: withoutBody(s.begin),
			summary:  "Begin a login by the identity provider: go to `url`, and keep `flow` until it sends the browser back to /sign-on.",
			outcomes: []outcome{jsonOutcome[signOnBegun](200, "where to go")}, errors: []drive.Kind{drive.NotFound, drive.Unavailable},
		}, {
			id: "finishSignOn", method: "POST", path: "/sign-on/finish", access: open, action: withJSON(s.finish),
			summary:  "Log in with what the provider sent back. The answer is that of POST /sessions; the login ends after `--oidc-life`, however much it is used. A code is good once: what was refused is begun again.",
			outcomes: []outcome{jsonOutcome[loginView](201, "the token, shown this once, or with `cookie` the user")}, errors: append(failing, drive.CrossOrigin),
		}, {
			id: "endSignOnSessions", method: "POST", path: "/sign-on/logout", access: open, action: action{raw: true, mediaType: "application/x-www-form-urlencoded", run: s.logoutByProvider},
			summary:  "For the provider: end all logins by it of the person whom its `logout_token` names (OpenID Connect Back-Channel Logout 1.0).",
			outcomes: []outcome{emptyOutcome(200, "they have ended")}, errors: []drive.Kind{drive.NotFound, drive.TooLarge, drive.Rate, drive.Unavailable},
		},
	}
}

// selfRoutes returns the routes for connecting the caller's own user with the provider.
func (s signOns) selfRoutes() []route {
	failing := []drive.Kind{drive.NotFound, drive.Gone, drive.Forbidden, drive.Rate, drive.Unavailable}
	return []route{
		{
			id: "getMySignOn", method: "GET", path: "/me/sign-on", access: read, action: withoutBody(s.mine),
			summary:  "Say whether the user can log in by the identity provider.",
			outcomes: []outcome{jsonOutcome[connectedView](200, "whether")},
		}, {
			id: "startMySignOn", method: "POST", path: "/me/sign-on", access: write, action: withJSON(s.beginConnect),
			summary:  "Begin to let the user log in by the provider from now on: as POST /sign-on, and it takes the password.",
			outcomes: []outcome{jsonOutcome[signOnBegun](200, "where to go")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden, drive.Rate, drive.Unavailable},
		}, {
			id: "linkMySignOn", method: "PUT", path: "/me/sign-on", access: write, action: withJSON(s.connect),
			summary:  "End what POST /me/sign-on began: the user is the person whom the provider vouches for.",
			outcomes: []outcome{emptyOutcome(204, "they are connected")}, errors: append(failing, drive.WrongState),
		}, {
			id: "unlinkMySignOn", method: "POST", path: "/me/sign-on/end", access: write, action: withJSON(s.end),
			summary:  "End that the user can log in by the provider, and their logins by it. It takes the password, without which they could not come back.",
			outcomes: []outcome{emptyOutcome(204, "they cannot")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden, drive.Rate},
		},
	}
}

// adminRoutes returns the declarations of the administrators' routes. It registers nothing.
func (s signOns) adminRoutes() []route {
	return []route{
		{
			id: "unlinkUserSignOn", method: "DELETE", path: "/admin/users/{id}/sign-on", access: admins, action: byID(s.disconnect),
			summary:  "Unlink a user from the identity provider and end the sessions it started. Somebody without a password needs one first.",
			outcomes: []outcome{emptyOutcome(204, "they cannot")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// signOnView is the JSON in replies to GET /sign-on.
type signOnView struct {
	Provider *providerView `json:"provider"` // null: no provider
}

// providerView is the identity provider in signOnView.
type providerView struct {
	Name string `json:"name" doc:"display name of the provider"`
}

// show serves GET /sign-on. It replies 200 with the identity provider, or null if none is
// configured.
func (s signOns) show(context.Context, *call) (reply, error) {
	if s.provider == nil {
		return ok(signOnView{})
	}
	return ok(signOnView{&providerView{s.provider.Name()}})
}

// checkProvider returns drive.NotFound if no identity provider is configured, else nil.
func (s signOns) checkProvider() error {
	if s.provider == nil {
		return drive.Fail(drive.NotFound, "what", "identity provider")
	}
	return nil
}

// signOnBegun is the JSON in replies to POST /sign-on, POST /me/sign-on.
type signOnBegun struct {
	URL  string `json:"url" doc:"URL of the provider's sign-in page"`
	Flow string `json:"flow" doc:"opaque state of this sign-in; valid for an hour"`
}

// begin serves POST /sign-on. It replies 200 with signOnBegun. Beyond the errors common to all
// routes it fails with drive.NotFound or drive.Unavailable.
func (s signOns) begin(ctx context.Context, c *call) (reply, error) {
	if err := s.checkProvider(); err != nil {
		return reply{}, err
	}
	begun, err := s.provider.Begin(ctx, c.baseURL()+signOnPage)
	return answer(signOnBegun(begun), err)
}

// passwordOnly is the JSON request body of POST /me/sign-on and POST /me/sign-on/end.
type passwordOnly struct {
	Password string `json:"password" doc:"password of the local user"`
}

// beginConnect serves POST /me/sign-on. It replies 200 with signOnBegun. Beyond the errors common
// to all routes it fails with drive.NotFound, drive.Forbidden, drive.Rate or drive.Unavailable.
func (s signOns) beginConnect(ctx context.Context, c *call, in *passwordOnly) (reply, error) {
	if err := s.checkProvider(); err != nil {
		return reply{}, err
	}
	begun, err := s.provider.BeginConnect(ctx, c.who, in.Password, c.client(), c.baseURL()+signOnPage)
	return answer(signOnBegun(begun), err)
}

// end serves POST /me/sign-on/end. It replies 204 without a body. Beyond the errors common to all
// routes it fails with drive.NotFound, drive.Forbidden or drive.Rate.
func (s signOns) end(ctx context.Context, c *call, in *passwordOnly) (reply, error) {
	if err := s.checkProvider(); err != nil {
		return reply{}, err
	}
	return empty(s.provider.DisconnectSelf(ctx, c.who, in.Password, c.client()))
}

// returnBody holds the parameters of the provider's redirect, and the flow.
type returnBody struct {
	Code  string `json:"code" doc:"as returned by the provider"`
	State string `json:"state" doc:"as returned by the provider"`
	Iss   string `json:"iss,omitempty" doc:"issuer, if the provider returns it (RFC 9207)"`
	Flow  string `json:"flow" doc:"as returned when the sign-in began"`
}

// finishBody is the body of the request that ends a sign-on: what the provider returned, and
// whether the session is stored in a cookie.
type finishBody struct {
	Code  string `json:"code" doc:"as returned by the provider"`
	State string `json:"state" doc:"as returned by the provider"`
	Iss   string `json:"iss,omitempty" doc:"issuer, if the provider returns it (RFC 9207)"`
	Flow  string `json:"flow" doc:"as returned when the sign-in began"`

	Cookie bool `json:"cookie,omitempty" doc:"true: sets a cookie instead of returning the token"`
}

// finish serves POST /sign-on/finish. It replies 201 with loginView. Beyond the errors common to
// all routes it fails with drive.NotFound, drive.Gone, drive.Forbidden, drive.Rate,
// drive.Unavailable or drive.CrossOrigin.
func (s signOns) finish(ctx context.Context, c *call, in *finishBody) (reply, error) {
	if err := s.checkProvider(); err != nil {
		return reply{}, err
	}
	if in.Cookie {
		if err := c.checkOrigin(c.r); err != nil {
			return reply{}, err
		}
	}
	back := signon.Return{Code: in.Code, State: in.State, Issuer: in.Iss, Flow: in.Flow}
	g, err := s.provider.Finish(ctx, back, account.Login{Client: c.client(), Agent: c.r.UserAgent()})
	if err != nil {
		return reply{}, err
	}
	return s.granted(ctx, c, g, in.Cookie)
}

const maxTokenBody = 64 << 10 // bytes

// logoutByProvider serves POST /sign-on/logout. It replies 200 without a body. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.TooLarge, drive.Rate or
// drive.Unavailable.
func (s signOns) logoutByProvider(ctx context.Context, c *call) (reply, error) {
	if err := s.checkProvider(); err != nil {
		return reply{}, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxTokenBody))
	if err != nil {
		return reply{}, drive.Wrap(err, drive.TooLarge, "field", "body", "limit", maxTokenBody)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("logout_token") == "" {
		return reply{}, drive.BadField("logout_token", drive.Required)
	}
	if err := s.provider.LogOut(ctx, form.Get("logout_token"), c.client()); err != nil {
		return reply{}, err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	return reply{status: http.StatusOK}, nil
}

// connectedView is the JSON in replies to GET /me/sign-on.
type connectedView struct {
	Connected bool `json:"connected"`
}

// mine serves GET /me/sign-on: whether the caller's account is connected to the identity provider;
// false without one.
func (s signOns) mine(ctx context.Context, c *call) (reply, error) {
	if s.provider == nil {
		return ok(connectedView{})
	}
	is, err := s.provider.IsConnected(ctx, c.who.User)
	return answer(connectedView{is}, err)
}

// connect serves PUT /me/sign-on. It replies 204 without a body. Beyond the errors common to all
// routes it fails with drive.NotFound, drive.Gone, drive.Forbidden, drive.Rate, drive.Unavailable
// or drive.WrongState.
func (s signOns) connect(ctx context.Context, c *call, in *returnBody) (reply, error) {
	if err := s.checkProvider(); err != nil {
		return reply{}, err
	}
	back := signon.Return{Code: in.Code, State: in.State, Issuer: in.Iss, Flow: in.Flow}
	return empty(s.provider.Connect(ctx, c.who, back, c.client()))
}

// disconnect serves DELETE /admin/users/{id}/sign-on. It replies 204 without a body. Beyond the
// errors common to all routes it fails with drive.NotFound.
func (s signOns) disconnect(ctx context.Context, c *call, id drive.UserID) (reply, error) {
	if err := s.checkProvider(); err != nil {
		return reply{}, err
	}
	return empty(s.provider.Disconnect(ctx, c.who, id))
}
