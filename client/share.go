package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// AutoCode makes the server generate a code; it is a value of NewShare.Code.
const AutoCode = "auto"

// NewShare describes a share for CreateShare.
type NewShare struct {
	Node         string `json:"node"`
	Code         string `json:"code,omitempty"`          // extraction code: 4 to 16 letters and digits, or AutoCode; empty: none
	ExpiresIn    int64  `json:"expires_in,omitempty"`    // seconds; 0: never
	MaxDownloads int64  `json:"max_downloads,omitempty"` // 0: unlimited
}

// CreateShare creates a share. A retried request does not create a second one.
func (c *Client) CreateShare(ctx context.Context, s NewShare) (Share, error) {
	return fetch[Share](ctx, c, &request{method: http.MethodPost, path: "/shares", input: s, withKey: true})
}

// Shares returns a page of shares, newest first; a non-empty node id selects the shares of that
// node.
func (c *Client) Shares(ctx context.Context, node string, p Page) (List[Share], error) {
	query := p.values()
	if node != "" {
		query.Set("node", node)
	}
	return fetch[List[Share]](ctx, c, &request{method: http.MethodGet, path: "/shares", query: query})
}

// AllShares yields the shares of all pages, newest first; node is as in Shares. It yields an error
// last.
func (c *Client) AllShares(ctx context.Context, node string) iter.Seq2[Share, error] {
	return all(func(p Page) (List[Share], error) { return c.Shares(ctx, node, p) })
}

// DeleteShare deletes a share; its link stops working. It fails with CodeNotFound.
func (c *Client) DeleteShare(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: "/shares/" + url.PathEscape(id)})
}

// NewCollect describes a collect link for CreateCollect.
type NewCollect struct {
	Folder    string `json:"folder"`
	Title     string `json:"title"`
	Message   string `json:"message,omitempty"`
	ExpiresIn int64  `json:"expires_in,omitempty"` // seconds; 0: never
	MaxBytes  int64  `json:"max_bytes,omitempty"`  // bytes of all files; 0: limited only by the account's quota
	MaxFile   int64  `json:"max_file,omitempty"`   // bytes of one file; 0: no limit
}

// CreateCollect creates a collect link into a folder. A retried request does not create a second
// one.
func (c *Client) CreateCollect(ctx context.Context, n NewCollect) (Collect, error) {
	return fetch[Collect](ctx, c, &request{method: http.MethodPost, path: "/collects", input: n, withKey: true})
}

// Collects returns a page of the caller's collect links, newest first.
func (c *Client) Collects(ctx context.Context, p Page) (List[Collect], error) {
	return fetch[List[Collect]](ctx, c, &request{method: http.MethodGet, path: "/collects", query: p.values()})
}

// AllCollects yields all collect links, newest first. If a request fails, the last pair is a zero
// value and the error.
func (c *Client) AllCollects(ctx context.Context) iter.Seq2[Collect, error] {
	return all(func(p Page) (List[Collect], error) { return c.Collects(ctx, p) })
}

// DeleteCollect deletes a collect link. Received files stay. It fails with CodeNotFound.
func (c *Client) DeleteCollect(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: "/collects/" + url.PathEscape(id)})
}
