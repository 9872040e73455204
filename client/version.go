package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Version is a current or former content of a file.
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

// Versions returns a page of a file's versions, newest first, the current one among them. It fails
// with CodeNotFound.
func (c *Client) Versions(ctx context.Context, id string, p Page) (List[Version], error) {
	return fetch[List[Version]](ctx, c, &request{method: http.MethodGet, path: nodePath(id) + "/versions", query: p.values()})
}

// RestoreVersion stores an old version as the new current one and returns the node. It is charged
// like any version and fails with CodeQuota.
func (c *Client) RestoreVersion(ctx context.Context, id, version string) (Node, error) {
	path := nodePath(id) + "/versions/" + url.PathEscape(version) + "/restore"
	return fetch[Node](ctx, c, &request{method: http.MethodPost, path: path, withKey: true})
}

// ChangeEvent is an entry of the change feed. Either Node, the current state of a changed node, or
// Deleted, the id of a deleted one, is set.
type ChangeEvent struct {
	Seq     int64   `json:"seq"`
	Node    *Node   `json:"node,omitempty"`
	Deleted *string `json:"deleted,omitempty"`
}

// ChangeList is a page of the change feed. Next is the position to pass to the next Changes call,
// also if More is false.
type ChangeList struct {
	Items []ChangeEvent `json:"items"`
	Next  string        `json:"next"`
	More  bool          `json:"more"`
}

// Changes returns the changes after a position, in order; an empty position means the beginning.
func (c *Client) Changes(ctx context.Context, after string, p Page) (ChangeList, error) {
	query := p.values()
	if after != "" {
		query.Set("after", after)
	}
	return fetch[ChangeList](ctx, c, &request{method: http.MethodGet, path: "/changes", query: query})
}

// Link is a signed URL for browsers and curl.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// CreateLink creates a signed link to a file's content. lifetime is at most 24 hours; disposition
// is "attachment" or "inline".
func (c *Client) CreateLink(ctx context.Context, id string, lifetime time.Duration, disposition string) (Link, error) {
	in := map[string]any{"expires_in": int64(lifetime / time.Second), "disposition": disposition}
	return fetch[Link](ctx, c, &request{method: http.MethodPost, path: nodePath(id) + "/links", input: in, withKey: true})
}
