package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Notification is a notification of the caller.
type Notification struct {
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

// NotificationSettings configure how the caller is notified.
type NotificationSettings struct {
	MailPossible bool              `json:"mail_possible"`
	Address      string            `json:"address"`
	State        string            `json:"state"` // none, asked, confirmed, refused
	Language     string            `json:"language"`
	Channels     map[string]string `json:"channels"` // notice kind -> off, page or mail
}

// NotificationSettingsChange describes changes of NotificationSettings. Nil fields stay unchanged.
type NotificationSettingsChange struct {
	Address  *string           `json:"address,omitempty"`
	Language *string           `json:"language,omitempty"`
	Channels map[string]string `json:"channels,omitempty"`
}

// Notifications reads the caller's notifications and changes their settings.
type Notifications struct{ c *Client }

// NewNotifications returns a Notifications that uses c.
func NewNotifications(c *Client) Notifications { return Notifications{c} }

// List yields the notices, newest first; unread selects unread ones only. If a request fails, the
// last pair is a zero value and the error.
func (n Notifications) List(ctx context.Context, unread bool) iter.Seq2[Notification, error] {
	return all(func(p Page) (List[Notification], error) {
		query := p.values()
		if unread {
			query.Set("unread", "true")
		}
		return fetch[List[Notification]](ctx, n.c, &request{method: http.MethodGet, path: "/notices", query: query})
	})
}

// MarkRead marks notices as read, up to 1,000. Marking again changes nothing.
func (n Notifications) MarkRead(ctx context.Context, ids ...string) error {
	return n.mark(ctx, map[string]any{"ids": ids})
}

// MarkReadUpTo marks a notice and all older ones as read. It fails with CodeNotFound.
func (n Notifications) MarkReadUpTo(ctx context.Context, id string) error {
	return n.mark(ctx, map[string]any{"up_to": id})
}

// mark sends the request body in, which selects the notices to be marked as read.
func (n Notifications) mark(ctx context.Context, in any) error {
	_, err := fetch[struct{}](ctx, n.c, &request{method: http.MethodPost, path: "/notices/read", input: in})
	return err
}

// Settings returns the caller's notification settings.
func (n Notifications) Settings(ctx context.Context) (NotificationSettings, error) {
	return fetch[NotificationSettings](ctx, n.c, &request{method: http.MethodGet, path: "/notices/settings"})
}

// Change changes the notification settings. The server sends a confirmation code to a new mail
// address; see Confirm.
func (n Notifications) Change(ctx context.Context, in NotificationSettingsChange) (NotificationSettings, error) {
	return fetch[NotificationSettings](ctx, n.c, &request{method: http.MethodPatch, path: "/notices/settings", input: in})
}

// Confirm confirms the mail address with the code sent to it and returns the settings. A wrong or
// expired code fails with a Problem.
func (n Notifications) Confirm(ctx context.Context, code string) (NotificationSettings, error) {
	return fetch[NotificationSettings](ctx, n.c, &request{method: http.MethodPost, path: "/notices/settings/confirm", input: map[string]string{"code": code}})
}
