package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"example.org/smartdrive/api"
)

// NewWebhook describes a webhook for Create.
type NewWebhook struct {
	URL   string   `json:"url"`
	Name  string   `json:"name,omitempty"`
	Types []string `json:"types,omitempty"` // event types; empty: all but upload
	Space string   `json:"space,omitempty"` // name or id; empty: the caller's own drive
}

// Webhooks manages webhooks.
type Webhooks struct{ c *Client }

// NewWebhooks returns a Webhooks that uses c.
func NewWebhooks(c *Client) Webhooks { return Webhooks{c} }

// webhookPath returns the API path of a webhook.
func webhookPath(id string) string { return "/webhooks/" + url.PathEscape(id) }

// List returns the webhooks of a space, or of the caller's own drive if space is empty. It fails
// with CodeNotFound or CodeForbidden for a space that the caller does not manage.
func (w Webhooks) List(ctx context.Context, space string) ([]Webhook, error) {
	query := url.Values{}
	if space != "" {
		query.Set("space", space)
	}
	l, err := fetch[List[Webhook]](ctx, w.c, &request{method: http.MethodGet, path: "/webhooks", query: query})
	return l.Items, err
}

// Create creates a webhook. The reply is the only one that contains its secret.
func (w Webhooks) Create(ctx context.Context, in NewWebhook) (Webhook, error) {
	return fetch[Webhook](ctx, w.c, &request{method: http.MethodPost, path: "/webhooks", input: in, withKey: true})
}

// SetActive activates or disables a webhook and returns it. An activated one continues where it
// stopped.
func (w Webhooks) SetActive(ctx context.Context, id string, active bool) (Webhook, error) {
	state := "disabled"
	if active {
		state = "active"
	}
	return fetch[Webhook](ctx, w.c, &request{method: http.MethodPatch, path: webhookPath(id), input: map[string]string{"state": state}})
}

// Rotate replaces the secret of a webhook; the reply contains the new one. Requests are also signed
// with the previous secret for the duration keep, in whole seconds.
func (w Webhooks) Rotate(ctx context.Context, id string, keep time.Duration) (Webhook, error) {
	in := map[string]int64{"keep_for": int64(keep / time.Second)}
	return fetch[Webhook](ctx, w.c, &request{method: http.MethodPost, path: webhookPath(id) + "/secret", input: in, withKey: true})
}

// Delete deletes a webhook. It fails with CodeNotFound.
func (w Webhooks) Delete(ctx context.Context, id string) error {
	_, err := fetch[struct{}](ctx, w.c, &request{method: http.MethodDelete, path: webhookPath(id)})
	return err
}

// ReplaySince makes the server deliver all events since a time again, in the background. It fails
// with CodeNotFound.
func (w Webhooks) ReplaySince(ctx context.Context, id string, since time.Time) error {
	_, err := fetch[struct{}](ctx, w.c, &request{method: http.MethodPost, path: webhookPath(id) + "/replay", input: map[string]any{"since": since.UTC()}})
	return err
}

// Redeliver delivers one event again at once, and returns the HTTP status of the receiver's reply;
// 0: it was not reached.
func (w Webhooks) Redeliver(ctx context.Context, id, event string) (status int, err error) {
	a, err := fetch[api.ReplayResult](ctx, w.c, &request{method: http.MethodPost, path: webhookPath(id) + "/replay", input: map[string]any{"event": event}})
	if a.Status != nil {
		status = *a.Status
	}
	return status, err
}
