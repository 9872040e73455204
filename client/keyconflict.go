package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// KeyConflict is a creation that was refused because its Idempotency-Key had been used for another
// request.
type KeyConflict struct {
	ID      string    `json:"id"`
	Method  string    `json:"method"`
	Route   string    `json:"route"`
	Key     string    `json:"key"`
	Request string    `json:"request"` // its body, up to 4 KiB; empty if it may hold a secret, or had none
	Times   int64     `json:"times"`   // how often it was refused
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
}

// AllKeyConflicts yields the conflicts that nobody has settled, the oldest first. An error is the
// last thing it yields.
func (c *Client) AllKeyConflicts(ctx context.Context) iter.Seq2[KeyConflict, error] {
	return all(func(p Page) (List[KeyConflict], error) {
		return fetch[List[KeyConflict]](ctx, c, &call{method: http.MethodGet, path: "/key-conflicts", query: p.values()})
	})
}

// SettleKeyConflict removes a conflict from the list; it creates nothing.
func (c *Client) SettleKeyConflict(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/key-conflicts/" + url.PathEscape(id)})
}
