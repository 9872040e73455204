package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

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
