package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

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

// Changes returns the changes after a position, in order; an empty position means the beginning.
func (c *Client) Changes(ctx context.Context, after string, p Page) (ChangeList, error) {
	query := p.values()
	if after != "" {
		query.Set("after", after)
	}
	return fetch[ChangeList](ctx, c, &request{method: http.MethodGet, path: "/changes", query: query})
}

// CreateLink creates a signed link to a file's content. lifetime is at most 24 hours; disposition
// is "attachment" or "inline".
func (c *Client) CreateLink(ctx context.Context, id string, lifetime time.Duration, disposition string) (Link, error) {
	in := map[string]any{"expires_in": int64(lifetime / time.Second), "disposition": disposition}
	return fetch[Link](ctx, c, &request{method: http.MethodPost, path: nodePath(id) + "/links", input: in, withKey: true})
}
