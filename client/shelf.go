package client

import (
	"context"
	"iter"
	"net/http"
)

// Shelf is what a user reaches for: what they have starred, and what has changed last.
type Shelf struct{ c *Client }

// NewShelf returns the Shelf of a client.
func NewShelf(c *Client) Shelf { return Shelf{c} }

// Star stars a node; repeating it changes nothing.
func (s Shelf) Star(ctx context.Context, id string) error {
	return s.c.do(ctx, &call{method: http.MethodPut, path: nodePath(id) + "/star"})
}

// Unstar takes a star away; repeating it is not an error.
func (s Shelf) Unstar(ctx context.Context, id string) error {
	return s.c.do(ctx, &call{method: http.MethodDelete, path: nodePath(id) + "/star"})
}

// AllStarred yields what is starred and not in the trash, the newest star first. An error is the
// last thing it yields.
func (s Shelf) AllStarred(ctx context.Context) iter.Seq2[Node, error] { return s.list(ctx, "/starred") }

// AllRecent yields the files of the user's own drive by their last change, the newest first.
func (s Shelf) AllRecent(ctx context.Context) iter.Seq2[Node, error] { return s.list(ctx, "/recent") }

func (s Shelf) list(ctx context.Context, path string) iter.Seq2[Node, error] {
	return all(func(p Page) (List[Node], error) {
		return fetch[List[Node]](ctx, s.c, &call{method: http.MethodGet, path: path, query: p.values()})
	})
}
