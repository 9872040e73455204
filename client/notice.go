package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Notice is something that the caller was told.
type Notice struct {
	ID      string     `json:"id"`
	At      time.Time  `json:"at"`
	Read    *time.Time `json:"read_at"`
	Kind    string     `json:"kind"` // share, role, space, group, export, collect, quota, webhook, operation
	What    string     `json:"what"` // given, changed, taken, ending, ended, ready, failed, arrived, full, disabled
	Gone    bool       `json:"gone"` // the caller may not see any more what it was about
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

// NoticeSettings are how the caller is told.
type NoticeSettings struct {
	MailPossible bool              `json:"mail_possible"`
	Address      string            `json:"address"`
	State        string            `json:"state"` // none, asked, confirmed, refused
	Language     string            `json:"language"`
	Channels     map[string]string `json:"channels"` // kind to off, page, mail
}

// NoticeChange is a change of NoticeSettings; nil stays as it is.
type NoticeChange struct {
	Address  *string           `json:"address,omitempty"`
	Language *string           `json:"language,omitempty"`
	Channels map[string]string `json:"channels,omitempty"`
}

// Notices are what the caller is told.
type Notices struct{ c *Client }

// NewNotices returns the Notices of a client.
func NewNotices(c *Client) Notices { return Notices{c} }

// List yields the notices, the newest first; with unread those alone that were not read.
func (n Notices) List(ctx context.Context, unread bool) iter.Seq2[Notice, error] {
	return all(func(p Page) (List[Notice], error) {
		query := p.values()
		if unread {
			query.Set("unread", "true")
		}
		return fetch[List[Notice]](ctx, n.c, &call{method: http.MethodGet, path: "/notices", query: query})
	})
}

// Read marks notices as read.
func (n Notices) Read(ctx context.Context, ids ...string) error {
	return n.mark(ctx, map[string]any{"ids": ids})
}

// ReadUpTo marks a notice, and all that are older, as read.
func (n Notices) ReadUpTo(ctx context.Context, id string) error {
	return n.mark(ctx, map[string]any{"up_to": id})
}

func (n Notices) mark(ctx context.Context, in any) error {
	_, err := fetch[struct{}](ctx, n.c, &call{method: http.MethodPost, path: "/notices/read", in: in})
	return err
}

// Settings returns how the caller is told.
func (n Notices) Settings(ctx context.Context) (NoticeSettings, error) {
	return fetch[NoticeSettings](ctx, n.c, &call{method: http.MethodGet, path: "/notices/settings"})
}

// Change changes how the caller is told. To an address that is new a code is sent.
func (n Notices) Change(ctx context.Context, in NoticeChange) (NoticeSettings, error) {
	return fetch[NoticeSettings](ctx, n.c, &call{method: http.MethodPatch, path: "/notices/settings", in: in})
}

// Confirm confirms the address with the code that was sent there.
func (n Notices) Confirm(ctx context.Context, code string) (NoticeSettings, error) {
	return fetch[NoticeSettings](ctx, n.c, &call{method: http.MethodPost, path: "/notices/settings/confirm", in: map[string]string{"code": code}})
}
