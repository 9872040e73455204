package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// User is a person as an administrator sees them.
type User struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Admin     bool      `json:"admin"`
	State     string    `json:"state"` // active or disabled
	Total     *int64    `json:"total"` // bytes; nil is unlimited
	AccountID string    `json:"account_id"`
	CreatedAt time.Time `json:"created_at"`

	LastLogin  *time.Time `json:"last_login_at"`        // nil: never
	MustChange bool       `json:"must_change_password"` // has to set a new password first
}

// Total is what an account may hold.
type Total struct {
	Bytes     int64
	Unlimited bool
}

// MarshalJSON implements json.Marshaler: a number, or null.
func (t Total) MarshalJSON() ([]byte, error) {
	if t.Unlimited {
		return []byte("null"), nil
	}
	return json.Marshal(t.Bytes)
}

// NewUser describes a user to be made.
type NewUser struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Total    *Total `json:"total,omitempty"` // nil is the server's default
	Admin    bool   `json:"admin,omitempty"`

	MustChange bool `json:"must_change_password,omitempty"` // asked for a new password at the first login
}

// UserChange says what of a user changes; what is nil or empty stays.
type UserChange struct {
	Total    *Total `json:"total,omitempty"`
	Password string `json:"password,omitempty"`
	State    string `json:"state,omitempty"`
	Admin    *bool  `json:"admin,omitempty"`

	MustChange bool `json:"must_change_password,omitempty"` // with a Password: asked for a new one at the next login
}

// Ledger is what an account is charged, in bytes.
type Ledger struct {
	Total      *int64 `json:"total"`
	Finished   int64  `json:"finished"`
	Unfinished int64  `json:"unfinished"`
	Reserved   int64  `json:"reserved"`
	Owed       int64  `json:"owed"` // deleted and still on the disk: all four may be twice Total
}

// CreateUser makes a user.
func (c *Client) CreateUser(ctx context.Context, u NewUser) (User, error) {
	return fetch[User](ctx, c, &call{method: http.MethodPost, path: "/admin/users", in: u, key: true})
}

// Users lists users, only the one called name if it is not empty.
func (c *Client) Users(ctx context.Context, name string, p Page) (List[User], error) {
	query := p.values()
	if name != "" {
		query.Set("name", name)
	}
	return fetch[List[User]](ctx, c, &call{method: http.MethodGet, path: "/admin/users", query: query})
}

// ChangeUser changes a user.
func (c *Client) ChangeUser(ctx context.Context, id string, ch UserChange) (User, error) {
	return fetch[User](ctx, c, &call{method: http.MethodPatch, path: userPath(id), in: ch})
}

// DeleteUser disables a user; what they had is purged after 30 days.
func (c *Client) DeleteUser(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: userPath(id)})
}

// UserLedger returns what a user is charged.
func (c *Client) UserLedger(ctx context.Context, id string) (Ledger, error) {
	return fetch[Ledger](ctx, c, &call{method: http.MethodGet, path: userPath(id) + "/ledger"})
}

// AdminUploads lists open uploads, of one account if it is not empty.
func (c *Client) AdminUploads(ctx context.Context, account string, p Page) (List[json.RawMessage], error) {
	query := p.values()
	if account != "" {
		query.Set("account", account)
	}
	return fetch[List[json.RawMessage]](ctx, c, &call{method: http.MethodGet, path: "/admin/uploads", query: query})
}

// Findings lists what audits found and repaired.
func (c *Client) Findings(ctx context.Context, p Page) (List[json.RawMessage], error) {
	return fetch[List[json.RawMessage]](ctx, c, &call{method: http.MethodGet, path: "/admin/findings", query: p.values()})
}

// Timer returns the trace of a timer; its key is "kind/id".
func (c *Client) Timer(ctx context.Context, key string) (json.RawMessage, error) {
	kind, id, _ := strings.Cut(key, "/")
	path := "/admin/timers/" + url.PathEscape(kind) + "/" + url.PathEscape(id)
	return fetch[json.RawMessage](ctx, c, &call{method: http.MethodGet, path: path})
}

// DeadLetters lists the records that could not be handled.
func (c *Client) DeadLetters(ctx context.Context, p Page) (List[json.RawMessage], error) {
	return fetch[List[json.RawMessage]](ctx, c, &call{method: http.MethodGet, path: "/admin/dead-letters", query: p.values()})
}

// ReplayDeadLetter hands a dead letter to its handler again.
func (c *Client) ReplayDeadLetter(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodPost, path: letterPath(id) + "/replay", key: true})
}

// ReplayDeadLetters hands dead letters to their handlers again, 1,000 at most, and returns how many
// of them were still there.
func (c *Client) ReplayDeadLetters(ctx context.Context, ids []string) (int, error) {
	in := map[string][]string{"ids": ids}
	out, err := fetch[struct{ Replayed int }](ctx, c, &call{method: http.MethodPost, path: "/admin/dead-letters/replay", in: in, key: true})
	return out.Replayed, err
}

// DropDeadLetter forgets a dead letter.
func (c *Client) DropDeadLetter(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: letterPath(id)})
}

func userPath(id string) string   { return "/admin/users/" + url.PathEscape(id) }
func letterPath(id string) string { return "/admin/dead-letters/" + url.PathEscape(id) }
