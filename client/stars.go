package client

import (
	"context"
	"iter"
	"net/http"
)

// Stars manages a user's starred nodes and lists recently changed files.
type Stars struct{ c *Client }

// NewStars returns a Stars that uses c.
func NewStars(c *Client) Stars { return Stars{c} }

// Star stars a node for the caller. Starring it again changes nothing. It fails with CodeNotFound.
func (s Stars) Star(ctx context.Context, id string) error {
	return s.c.do(ctx, &request{method: http.MethodPut, path: nodePath(id) + "/star"})
}

// Unstar removes the star of a node. A node without a star is not an error.
func (s Stars) Unstar(ctx context.Context, id string) error {
	return s.c.do(ctx, &request{method: http.MethodDelete, path: nodePath(id) + "/star"})
}

// AllStarred yields the starred nodes that are not in the trash, newest star first. It yields an
// error last.
func (s Stars) AllStarred(ctx context.Context) iter.Seq2[Node, error] { return s.list(ctx, "/starred") }

// AllRecent yields the files of the user's own drive, most recently changed first. It yields an
// error last.
func (s Stars) AllRecent(ctx context.Context) iter.Seq2[Node, error] { return s.list(ctx, "/recent") }

// list yields the nodes of all pages of a listing and fetches the pages one by one. It yields an
// error once and then ends.
func (s Stars) list(ctx context.Context, path string) iter.Seq2[Node, error] {
	return all(func(p Page) (List[Node], error) {
		return fetch[List[Node]](ctx, s.c, &request{method: http.MethodGet, path: path, query: p.values()})
	})
}
