package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// User is a user as administrators see it.
type User struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Admin     bool      `json:"admin"`
	State     string    `json:"state"` // active or disabled
	Total     *int64    `json:"total"` // bytes; nil is unlimited
	AccountID string    `json:"account_id"`
	CreatedAt time.Time `json:"created_at"`

	LastLogin  *time.Time `json:"last_login_at"`        // nil: never
	MustChange bool       `json:"must_change_password"` // must set a new password before doing anything else
}

// Quota is a storage quota: a number of bytes, or unlimited.
type Quota struct {
	Bytes     int64
	Unlimited bool
}

// MarshalJSON returns the bytes as a number, or null for unlimited. It never fails.
func (t Quota) MarshalJSON() ([]byte, error) {
	if t.Unlimited {
		return []byte("null"), nil
	}
	return json.Marshal(t.Bytes)
}

// NewUser describes a user for CreateUser.
type NewUser struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Total    *Quota `json:"total,omitempty"` // nil is the server's default
	Admin    bool   `json:"admin,omitempty"`

	MustChange bool `json:"must_change_password,omitempty"` // must set a new password at the first login
}

// UserChange describes changes of a user. Nil and empty fields stay unchanged.
type UserChange struct {
	Total    *Quota `json:"total,omitempty"`
	Password string `json:"password,omitempty"`
	State    string `json:"state,omitempty"`
	Admin    *bool  `json:"admin,omitempty"`

	MustChange bool `json:"must_change_password,omitempty"` // together with Password: must set a new one at the next login
}

// Ledger is the storage accounting of an account, in bytes.
type Ledger struct {
	Total      *int64 `json:"total"`      // quota; nil: unlimited
	Finished   int64  `json:"finished"`   // files with all versions, and the trash
	Unfinished int64  `json:"unfinished"` // received parts of uploads that are parked or being reclaimed
	Reserved   int64  `json:"reserved"`   // declared sizes of running uploads
	Owed       int64  `json:"owed"`       // deleted but still on disk; Finished+Unfinished+Reserved+Owed may reach twice Total
}

// CreateUser creates a user with an account. A retried request does not create a second one. It
// fails with a Problem, such as CodeNameTaken.
func (c *Client) CreateUser(ctx context.Context, u NewUser) (User, error) {
	return fetch[User](ctx, c, &request{method: http.MethodPost, path: "/admin/users", input: u, withKey: true})
}

// Users returns a page of users. With a non-empty name, the page contains that user only, or nobody
// if there is none. It requires an administrator.
func (c *Client) Users(ctx context.Context, name string, p Page) (List[User], error) {
	query := p.values()
	if name != "" {
		query.Set("name", name)
	}
	return fetch[List[User]](ctx, c, &request{method: http.MethodGet, path: "/admin/users", query: query})
}

// ChangeUser changes the fields that ch sets, all or none, and returns the user.
func (c *Client) ChangeUser(ctx context.Context, id string, ch UserChange) (User, error) {
	return fetch[User](ctx, c, &request{method: http.MethodPatch, path: userPath(id), input: ch})
}

// DeleteUser disables a user. The server purges the user's data after 30 days.
func (c *Client) DeleteUser(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: userPath(id)})
}

// UserLedger returns the storage accounting of a user's account. It requires an administrator.
func (c *Client) UserLedger(ctx context.Context, id string) (Ledger, error) {
	return fetch[Ledger](ctx, c, &request{method: http.MethodGet, path: userPath(id) + "/ledger"})
}

// AdminUploads returns a page of open uploads; a non-empty account id selects one account's.
func (c *Client) AdminUploads(ctx context.Context, account string, p Page) (List[json.RawMessage], error) {
	query := p.values()
	if account != "" {
		query.Set("account", account)
	}
	return fetch[List[json.RawMessage]](ctx, c, &request{method: http.MethodGet, path: "/admin/uploads", query: query})
}

// Findings returns a page of the inconsistencies that audits found and repaired.
func (c *Client) Findings(ctx context.Context, p Page) (List[json.RawMessage], error) {
	return fetch[List[json.RawMessage]](ctx, c, &request{method: http.MethodGet, path: "/admin/findings", query: p.values()})
}

// Timer returns the trace of a timer, the recorded steps of its life, as the server's JSON. The key
// has the form "kind/id".
func (c *Client) Timer(ctx context.Context, key string) (json.RawMessage, error) {
	kind, id, _ := strings.Cut(key, "/")
	path := "/admin/timers/" + url.PathEscape(kind) + "/" + url.PathEscape(id)
	return fetch[json.RawMessage](ctx, c, &request{method: http.MethodGet, path: path})
}

// DeadLetters returns a page of the records and timers whose handler failed for good.
func (c *Client) DeadLetters(ctx context.Context, p Page) (List[json.RawMessage], error) {
	return fetch[List[json.RawMessage]](ctx, c, &request{method: http.MethodGet, path: "/admin/dead-letters", query: p.values()})
}

// ReplayDeadLetter hands a dead letter to its handler again; it is handled in the background. It
// fails with CodeNotFound.
func (c *Client) ReplayDeadLetter(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodPost, path: letterPath(id) + "/replay", withKey: true})
}

// ReplayDeadLetters hands up to 1,000 dead letters to their handlers again. It returns how many of
// them still existed.
func (c *Client) ReplayDeadLetters(ctx context.Context, ids []string) (int, error) {
	in := map[string][]string{"ids": ids}
	out, err := fetch[struct{ Replayed int }](ctx, c, &request{method: http.MethodPost, path: "/admin/dead-letters/replay", input: in, withKey: true})
	return out.Replayed, err
}

// DropDeadLetter deletes a dead letter for good without handling it. It fails with CodeNotFound.
func (c *Client) DropDeadLetter(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: letterPath(id)})
}

// userPath returns the API path of a user.
func userPath(id string) string { return "/admin/users/" + url.PathEscape(id) }

// letterPath returns the API path of a dead letter.
func letterPath(id string) string { return "/admin/dead-letters/" + url.PathEscape(id) }
