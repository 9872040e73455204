package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Session is a login: 30 days, sliding.
type Session struct {
	ID        string    `json:"id,omitempty"`
	Token     string    `json:"token,omitempty"` // only when it is made
	Name      string    `json:"name,omitempty"`  // what the client called itself
	CreatedAt time.Time `json:"created_at,omitzero"`
	SeenAt    time.Time `json:"seen_at,omitzero"` // exact to an hour
	ExpiresAt time.Time `json:"expires_at"`
	Current   bool      `json:"current,omitempty"` // the one that asks

	// MustChange says of a new login that it is good for SetPassword only.
	MustChange bool `json:"must_change_password,omitempty"`
}

// Login makes a session. The client itself goes on with the token it has; see WithToken.
func (c *Client) Login(ctx context.Context, name, password string) (s Session, err error) {
	in := map[string]string{"name": name, "password": password}
	err = c.do(ctx, &call{method: http.MethodPost, path: "/sessions", in: in, out: &s})
	return s, err
}

// Sessions lists the user's sessions.
func (c *Client) Sessions(ctx context.Context, p Page) (List[Session], error) {
	return fetch[List[Session]](ctx, c, &call{method: http.MethodGet, path: "/sessions", query: p.values()})
}

// Logout ends a session by its id, or "current".
func (c *Client) Logout(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/sessions/" + url.PathEscape(id)})
}

// AccessToken is a token for programs.
type AccessToken struct {
	ID        string     `json:"id"`
	Token     string     `json:"token,omitempty"` // only when it is made
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes"` // read, write, admin
	Heads     []string   `json:"heads"`  // native, dav, nextcloud: the protocols that it is good for
	CreatedAt time.Time  `json:"created_at,omitzero"`
	SeenAt    time.Time  `json:"seen_at,omitzero"` // exact to an hour
	ExpiresAt *time.Time `json:"expires_at"`       // nil: never
}

// NewToken describes an access token to be made.
type NewToken struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	Heads     []string `json:"heads,omitempty"`      // none: native
	ExpiresIn int64    `json:"expires_in,omitempty"` // seconds
}

// CreateToken makes an access token. It is not repeated when the reply is lost: a token that nobody
// knows would stay.
func (c *Client) CreateToken(ctx context.Context, t NewToken) (AccessToken, error) {
	made, err := fetch[AccessToken](ctx, c, &call{method: http.MethodPost, path: "/tokens", in: t, once: true})
	if err != nil {
		return made, err
	}
	made.Name, made.Scopes, made.Heads = t.Name, t.Scopes, t.Heads // which the answer does not repeat
	if len(t.Heads) == 0 {
		made.Heads = []string{"native"}
	}
	return made, nil
}

// Tokens lists the user's access tokens.
func (c *Client) Tokens(ctx context.Context, p Page) (List[AccessToken], error) {
	return fetch[List[AccessToken]](ctx, c, &call{method: http.MethodGet, path: "/tokens", query: p.values()})
}

// DeleteToken revokes an access token.
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/tokens/" + url.PathEscape(id)})
}

// Me returns who the token belongs to and what they use.
func (c *Client) Me(ctx context.Context) (Me, error) {
	return fetch[Me](ctx, c, &call{method: http.MethodGet, path: "/me"})
}

// SetPassword changes the user's password and revokes all other sessions.
func (c *Client) SetPassword(ctx context.Context, current, password string) error {
	in := map[string]string{"current": current, "password": password}
	return c.do(ctx, &call{method: http.MethodPut, path: "/me/password", in: in})
}

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
