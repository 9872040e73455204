package client

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	followEvery = 2 * time.Second // between two looks for what is new
	followPage  = 50
)

// FollowActivity yields what happens from now on, or after the entry with the id after, the oldest
// first, until ctx is done. A server that is away for a while is asked again: nothing is left out
// and nothing comes twice. It ends with an error when the caller may not look any more, or there is
// nothing to look at.
func (c *Client) FollowActivity(ctx context.Context, in ActivityQuery, after string) iter.Seq2[Happened, error] {
	return c.follow(ctx, in, after, followEvery)
}

func (c *Client) follow(ctx context.Context, in ActivityQuery, after string, every time.Duration) iter.Seq2[Happened, error] {
	return func(yield func(Happened, error) bool) {
		seen, known := positionOf(after), after != ""
		for {
			var fresh []Happened
			var err error
			if known {
				fresh, err = c.activityAfter(ctx, in, seen)
			} else {
				seen, err = c.activityTop(ctx, in)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !passes(err):
				yield(Happened{}, err)
				return
			case err == nil:
				known = true
				for _, h := range slices.Backward(fresh) {
					seen = positionOf(h.ID)
					if !yield(h, nil) {
						return
					}
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
		}
	}
}

// passes reports whether an error says that the server is away for now, and not that there is
// nothing to wait for.
func passes(err error) bool {
	return !IsCode(err, CodeUnauthenticated, CodeForbidden, CodeNotFound, CodeGone, CodeBadRequest)
}

// positionOf is the number of an entry, by which those of one place are in their order.
func positionOf(id string) int64 {
	number, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// activityTop is a position after which there is no entry yet of the types that are asked for. The
// newest entry of those that are listed anyway may be older than some of them, and the newest of a
// rare type so old that each look would go back to it.
func (c *Client) activityTop(ctx context.Context, in ActivityQuery) (top int64, err error) {
	for _, types := range slices.Compact([]string{"", in.Types}) {
		in.Types = types
		list, err := fetch[List[Happened]](ctx, c, &call{method: http.MethodGet, path: "/activity", query: in.values(Page{Limit: followPage})})
		if err != nil {
			return 0, err
		}
		switch {
		case len(list.Items) > 0:
			top = max(top, positionOf(list.Items[0].ID))
		case list.NextCursor != nil: // so far it was looked, and none found
			top = max(top, positionOf(*list.NextCursor))
		}
	}
	return top, nil
}

// activityAfter lists what is newer than a position, the newest first.
func (c *Client) activityAfter(ctx context.Context, in ActivityQuery, seen int64) (fresh []Happened, err error) {
	for page := (Page{Limit: followPage}); ; {
		list, err := fetch[List[Happened]](ctx, c, &call{method: http.MethodGet, path: "/activity", query: in.values(page)})
		if err != nil {
			return nil, err
		}
		for _, h := range list.Items {
			if positionOf(h.ID) <= seen {
				return fresh, nil
			}
			fresh = append(fresh, h)
		}
		if list.NextCursor == nil || *list.NextCursor == "" {
			return fresh, nil
		}
		if at := positionOf(*list.NextCursor); at > 0 && at <= seen { // of the types asked for there may be none for long
			return fresh, nil
		}
		page.Cursor = *list.NextCursor
	}
}
