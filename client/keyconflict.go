package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// KeyConflict is a request that the server refused because its Idempotency-Key had been used for a
// different request.
type KeyConflict struct {
	ID      string    `json:"id"`
	Method  string    `json:"method"`
	Route   string    `json:"route"`
	Key     string    `json:"key"`
	Request string    `json:"request"` // body, up to 4 KiB; empty if there was none or it may contain a secret
	Times   int64     `json:"times"`   // number of refusals
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
}

// AllKeyConflicts yields the unsettled conflicts, oldest first. If a request fails, the last pair
// is a zero value and the error.
func (c *Client) AllKeyConflicts(ctx context.Context) iter.Seq2[KeyConflict, error] {
	return all(func(p Page) (List[KeyConflict], error) {
		return fetch[List[KeyConflict]](ctx, c, &request{method: http.MethodGet, path: "/key-conflicts", query: p.values()})
	})
}

// SettleKeyConflict removes a conflict from the list. It does not execute the refused request.
func (c *Client) SettleKeyConflict(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: "/key-conflicts/" + url.PathEscape(id)})
}
