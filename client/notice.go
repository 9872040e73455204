package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Notice is a notification of the caller.
type Notice struct {
	ID      string     `json:"id"`
	At      time.Time  `json:"at"`
	Read    *time.Time `json:"read_at"`
	Kind    string     `json:"kind"` // share, role, space, group, export, collect, quota, webhook, operation
	What    string     `json:"what"` // given, changed, taken, ending, ended, ready, failed, arrived, full, disabled
	Gone    bool       `json:"gone"` // the caller no longer has access to its subject
	By      string     `json:"by"`
	Node    string     `json:"node_id"`
	Name    string     `json:"name"`
	Path    string     `json:"path"`
	Space   string     `json:"space"`
	Role    string     `json:"role"`
	Expires *time.Time `json:"expires_at"`
	Export  string     `json:"export_id"`
	Failed  int64      `json:"failed"`
	Reason  string     `json:"reason"`
	Total   *int64     `json:"total"`
}

// NoticeSettings configure how the caller is notified.
type NoticeSettings struct {
	MailPossible bool              `json:"mail_possible"`
	Address      string            `json:"address"`
	State        string            `json:"state"` // none, asked, confirmed, refused
	Language     string            `json:"language"`
	Channels     map[string]string `json:"channels"` // notice kind -> off, page or mail
}

// NoticeChange describes changes of NoticeSettings. Nil fields stay unchanged.
type NoticeChange struct {
	Address  *string           `json:"address,omitempty"`
	Language *string           `json:"language,omitempty"`
	Channels map[string]string `json:"channels,omitempty"`
}

// Notices reads the caller's notifications and changes their settings.
type Notices struct{ c *Client }

// NewNotices returns a Notices that uses c.
func NewNotices(c *Client) Notices { return Notices{c} }

// List yields the notices, newest first; unread selects unread ones only. It yields an error last.
func (n Notices) List(ctx context.Context, unread bool) iter.Seq2[Notice, error] {
	return all(func(p Page) (List[Notice], error) {
		query := p.values()
		if unread {
			query.Set("unread", "true")
		}
		return fetch[List[Notice]](ctx, n.c, &request{method: http.MethodGet, path: "/notices", query: query})
	})
}

// Read marks notices as read.
func (n Notices) Read(ctx context.Context, ids ...string) error {
	return n.mark(ctx, map[string]any{"ids": ids})
}

// ReadUpTo marks a notice and all older ones as read.
func (n Notices) ReadUpTo(ctx context.Context, id string) error {
	return n.mark(ctx, map[string]any{"up_to": id})
}

// mark sends a request that marks notices as read.
func (n Notices) mark(ctx context.Context, in any) error {
	_, err := fetch[struct{}](ctx, n.c, &request{method: http.MethodPost, path: "/notices/read", input: in})
	return err
}

// Settings returns the notification settings.
func (n Notices) Settings(ctx context.Context) (NoticeSettings, error) {
	return fetch[NoticeSettings](ctx, n.c, &request{method: http.MethodGet, path: "/notices/settings"})
}

// Change changes the notification settings. The server sends a confirmation code to a new mail
// address; see Confirm.
func (n Notices) Change(ctx context.Context, in NoticeChange) (NoticeSettings, error) {
	return fetch[NoticeSettings](ctx, n.c, &request{method: http.MethodPatch, path: "/notices/settings", input: in})
}

// Confirm confirms the mail address with the code sent to it.
func (n Notices) Confirm(ctx context.Context, code string) (NoticeSettings, error) {
	return fetch[NoticeSettings](ctx, n.c, &request{method: http.MethodPost, path: "/notices/settings/confirm", input: map[string]string{"code": code}})
}
