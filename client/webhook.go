package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Webhook is an address that is sent what happens.
type Webhook struct {
	ID        string     `json:"id"`
	Account   string     `json:"account_id"`
	Name      string     `json:"name"`
	URL       string     `json:"url"`
	Types     []string   `json:"types"`
	State     string     `json:"state"`  // active, disabled
	Reason    string     `json:"reason"` // why it was disabled: failing, right, secret, gone; empty: by somebody
	Skipped   int64      `json:"skipped"`
	Failures  int64      `json:"failures"`
	Status    int64      `json:"status"`
	Error     string     `json:"error"`
	SentAt    *time.Time `json:"sent_at"`
	NextAt    *time.Time `json:"next_at"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	OldUntil  *time.Time `json:"old_secret_until"` // requests are signed with the secret before, too, until then
	Secret    string     `json:"secret,omitempty"` // of one that was just made or rotated
}

// NewWebhook describes a webhook to be made.
type NewWebhook struct {
	URL   string   `json:"url"`
	Name  string   `json:"name,omitempty"`
	Types []string `json:"types,omitempty"` // none: all but upload
	Space string   `json:"space,omitempty"` // name or id; empty: the caller's own drive
}

// Webhooks keeps webhooks.
type Webhooks struct{ c *Client }

// NewWebhooks returns the Webhooks of a client.
func NewWebhooks(c *Client) Webhooks { return Webhooks{c} }

func webhookPath(id string) string { return "/webhooks/" + url.PathEscape(id) }

// List lists the webhooks of the caller's drive, or of a space.
func (w Webhooks) List(ctx context.Context, space string) ([]Webhook, error) {
	query := url.Values{}
	if space != "" {
		query.Set("space", space)
	}
	l, err := fetch[List[Webhook]](ctx, w.c, &call{method: http.MethodGet, path: "/webhooks", query: query})
	return l.Items, err
}

// Create makes a webhook; its secret is in the answer, and never again.
func (w Webhooks) Create(ctx context.Context, in NewWebhook) (Webhook, error) {
	return fetch[Webhook](ctx, w.c, &call{method: http.MethodPost, path: "/webhooks", in: in, key: true})
}

// Enable makes a webhook active, or disables it.
func (w Webhooks) Enable(ctx context.Context, id string, active bool) (Webhook, error) {
	state := "disabled"
	if active {
		state = "active"
	}
	return fetch[Webhook](ctx, w.c, &call{method: http.MethodPatch, path: webhookPath(id), in: map[string]string{"state": state}})
}

// Rotate gives a webhook another secret, which is in the answer. For as long as keep says requests
// are signed with the one before, too.
func (w Webhooks) Rotate(ctx context.Context, id string, keep time.Duration) (Webhook, error) {
	in := map[string]int64{"keep_for": int64(keep / time.Second)}
	return fetch[Webhook](ctx, w.c, &call{method: http.MethodPost, path: webhookPath(id) + "/secret", in: in, key: true})
}

// Delete deletes a webhook.
func (w Webhooks) Delete(ctx context.Context, id string) error {
	_, err := fetch[struct{}](ctx, w.c, &call{method: http.MethodDelete, path: webhookPath(id)})
	return err
}

// ReplaySince sends again all that happened since a moment.
func (w Webhooks) ReplaySince(ctx context.Context, id string, since time.Time) error {
	_, err := fetch[struct{}](ctx, w.c, &call{method: http.MethodPost, path: webhookPath(id) + "/replay", in: map[string]any{"since": since.UTC()}})
	return err
}

// SendAgain sends one event again, now, and returns what the receiver answered; 0: it was not
// reached.
func (w Webhooks) SendAgain(ctx context.Context, id, event string) (status int, err error) {
	type answer struct {
		Status int `json:"status"`
	}
	a, err := fetch[answer](ctx, w.c, &call{method: http.MethodPost, path: webhookPath(id) + "/replay", in: map[string]any{"event": event}})
	return a.Status, err
}
