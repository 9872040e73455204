package client

import (
	"context"
	"iter"
	"net/http"
)

// Shelf manages a user's starred nodes and lists recently changed files.
type Shelf struct{ c *Client }

// NewShelf returns a Shelf that uses c.
func NewShelf(c *Client) Shelf { return Shelf{c} }

// Star stars a node. Starring it again changes nothing.
func (s Shelf) Star(ctx context.Context, id string) error {
	return s.c.do(ctx, &request{method: http.MethodPut, path: nodePath(id) + "/star"})
}

// Unstar removes the star of a node. A node without a star is not an error.
func (s Shelf) Unstar(ctx context.Context, id string) error {
	return s.c.do(ctx, &request{method: http.MethodDelete, path: nodePath(id) + "/star"})
}

// AllStarred yields the starred nodes that are not in the trash, newest star first. It yields an
// error last.
func (s Shelf) AllStarred(ctx context.Context) iter.Seq2[Node, error] { return s.list(ctx, "/starred") }

// AllRecent yields the files of the user's own drive, most recently changed first. It yields an
// error last.
func (s Shelf) AllRecent(ctx context.Context) iter.Seq2[Node, error] { return s.list(ctx, "/recent") }

// list yields the nodes of all pages of a listing.
func (s Shelf) list(ctx context.Context, path string) iter.Seq2[Node, error] {
	return all(func(p Page) (List[Node], error) {
		return fetch[List[Node]](ctx, s.c, &request{method: http.MethodGet, path: path, query: p.values()})
	})
}
