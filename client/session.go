package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Session is a login. It expires after 30 days without use.
type Session struct {
	ID        string    `json:"id,omitempty"`
	Token     string    `json:"token,omitempty"` // set only when created
	Name      string    `json:"name,omitempty"`  // as the client named itself
	CreatedAt time.Time `json:"created_at,omitzero"`
	SeenAt    time.Time `json:"seen_at,omitzero"` // last use, to the hour
	ExpiresAt time.Time `json:"expires_at"`
	Current   bool      `json:"current,omitempty"` // the session of this client's token

	// MustChange, set by Login, reports that the session permits only SetPassword.
	MustChange bool `json:"must_change_password,omitempty"`
}

// Login creates a session. The client keeps its own token; use WithToken to act with the new one.
func (c *Client) Login(ctx context.Context, name, password string) (s Session, err error) {
	in := map[string]string{"name": name, "password": password}
	err = c.do(ctx, &request{method: http.MethodPost, path: "/sessions", input: in, output: &s})
	return s, err
}

// Sessions returns a page of the user's sessions, newest first.
func (c *Client) Sessions(ctx context.Context, p Page) (List[Session], error) {
	return fetch[List[Session]](ctx, c, &request{method: http.MethodGet, path: "/sessions", query: p.values()})
}

// Logout ends a session; id may be "current". It fails with CodeNotFound for an unknown one.
func (c *Client) Logout(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: "/sessions/" + url.PathEscape(id)})
}

// AccessToken is a token for programs.
type AccessToken struct {
	ID        string     `json:"id"`
	Token     string     `json:"token,omitempty"` // set only when created
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes"` // read, write, admin
	Heads     []string   `json:"heads"`  // permitted protocols: native, dav, nextcloud
	CreatedAt time.Time  `json:"created_at,omitzero"`
	SeenAt    time.Time  `json:"seen_at,omitzero"` // last use, to the hour
	ExpiresAt *time.Time `json:"expires_at"`       // nil: never
}

// NewToken describes an access token for CreateToken.
type NewToken struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	Heads     []string `json:"heads,omitempty"`      // empty: native
	ExpiresIn int64    `json:"expires_in,omitempty"` // seconds; 0: never
}

// CreateToken creates an access token. It does not retry if the reply is lost, because a token
// would remain that nobody knows. It fails with CodeForbidden if the client itself uses a token.
func (c *Client) CreateToken(ctx context.Context, t NewToken) (AccessToken, error) {
	made, err := fetch[AccessToken](ctx, c, &request{method: http.MethodPost, path: "/tokens", input: t, noRetryInDoubt: true})
	if err != nil {
		return made, err
	}
	made.Name, made.Scopes, made.Heads = t.Name, t.Scopes, t.Heads // the reply does not repeat these
	if len(t.Heads) == 0 {
		made.Heads = []string{"native"}
	}
	return made, nil
}

// Tokens returns a page of the user's access tokens, without the secrets, newest first.
func (c *Client) Tokens(ctx context.Context, p Page) (List[AccessToken], error) {
	return fetch[List[AccessToken]](ctx, c, &request{method: http.MethodGet, path: "/tokens", query: p.values()})
}

// DeleteToken revokes an access token; servers may accept it for 5 more seconds. It fails with
// CodeNotFound.
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: "/tokens/" + url.PathEscape(id)})
}

// Me returns the user of the token, the account, and its storage usage.
func (c *Client) Me(ctx context.Context) (Me, error) {
	return fetch[Me](ctx, c, &request{method: http.MethodGet, path: "/me"})
}

// SetPassword changes the user's password and ends all other sessions and all tokens. A wrong
// current password fails with CodeForbidden.
func (c *Client) SetPassword(ctx context.Context, current, password string) error {
	in := map[string]string{"current": current, "password": password}
	return c.do(ctx, &request{method: http.MethodPut, path: "/me/password", input: in})
}

// values encodes the page as URL parameters. Zero fields are left out, so the server's defaults
// apply.
func (p Page) values() url.Values {
	v := make(url.Values)
	if p.Limit > 0 {
		v.Set("limit", itoa(int64(p.Limit)))
	}
	for name, value := range map[string]string{"cursor": p.Cursor, "sort": p.Sort, "order": p.Order} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}
