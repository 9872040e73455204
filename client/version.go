package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Version is one content that a file has or had.
type Version struct {
	ID        string    `json:"id"`
	Size      int64     `json:"size"` // bytes
	MIME      string    `json:"mime"`
	Mtime     time.Time `json:"mtime"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	Digests   Digests   `json:"digests"`
	Current   bool      `json:"current"`
}

// Versions lists the versions of a file, the newest first.
func (c *Client) Versions(ctx context.Context, id string, p Page) (List[Version], error) {
	return fetch[List[Version]](ctx, c, &call{method: http.MethodGet, path: nodePath(id) + "/versions", query: p.values()})
}

// RestoreVersion makes an old version the current one again.
func (c *Client) RestoreVersion(ctx context.Context, id, version string) (Node, error) {
	path := nodePath(id) + "/versions/" + url.PathEscape(version) + "/restore"
	return fetch[Node](ctx, c, &call{method: http.MethodPost, path: path, key: true})
}

// ChangeEvent is an entry of the change feed: a node as it is now, or the id of one that is gone.
type ChangeEvent struct {
	Seq     int64   `json:"seq"`
	Node    *Node   `json:"node,omitempty"`
	Deleted *string `json:"deleted,omitempty"`
}

// ChangeList is a page of the change feed. Next is what to ask after for the following one, whether
// or not there is More.
type ChangeList struct {
	Items []ChangeEvent `json:"items"`
	Next  string        `json:"next"`
	More  bool          `json:"more"`
}

// Changes lists what has changed after a position, empty for the beginning, in order.
func (c *Client) Changes(ctx context.Context, after string, p Page) (ChangeList, error) {
	query := p.values()
	if after != "" {
		query.Set("after", after)
	}
	return fetch[ChangeList](ctx, c, &call{method: http.MethodGet, path: "/changes", query: query})
}

// Link is a signed address for browsers and curl.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// CreateLink makes a link to a file's content, good for at most 24 hours; disposition is
// "attachment" or "inline".
func (c *Client) CreateLink(ctx context.Context, id string, lifetime time.Duration, disposition string) (Link, error) {
	in := map[string]any{"expires_in": int64(lifetime / time.Second), "disposition": disposition}
	return fetch[Link](ctx, c, &call{method: http.MethodPost, path: nodePath(id) + "/links", in: in, key: true})
}
