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
	followEvery = 2 * time.Second // polling interval
	// followPage is the number of entries per request.
	followPage = 50
)

// FollowActivity polls the activity log and yields new entries, oldest first, until ctx is done:
// entries after the one with the id after, or from now on if after is empty. It survives outages of
// the server; no entry is skipped or repeated. It yields the error of a failed request last if
// access is denied or the node or space is gone.
func (c *Client) FollowActivity(ctx context.Context, in ActivityQuery, after string) iter.Seq2[ActivityEntry, error] {
	return c.follow(ctx, in, after, followEvery)
}

// follow polls the activity log every interval and yields new entries, oldest first, starting after
// the entry with the id after. Transient errors are retried forever; others are yielded once and
// end it. A canceled ctx ends it without an error.
func (c *Client) follow(ctx context.Context, in ActivityQuery, after string, every time.Duration) iter.Seq2[ActivityEntry, error] {
	return func(yield func(ActivityEntry, error) bool) {
		seen, known := entrySeq(after), after != ""
		for {
			var fresh []ActivityEntry
			var err error
			if known {
				fresh, err = c.entriesAfter(ctx, in, seen)
			} else {
				seen, err = c.newestSeq(ctx, in)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && !isTransient(err):
				yield(ActivityEntry{}, err)
				return
			case err == nil:
				known = true
				for _, h := range slices.Backward(fresh) {
					seen = entrySeq(h.ID)
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

// isTransient reports whether polling continues after err: every error but the codes that a retry
// cannot change.
func isTransient(err error) bool {
	return !IsCode(err, CodeUnauthenticated, CodeForbidden, CodeNotFound, CodeGone, CodeBadRequest)
}

// entrySeq returns the sequence number in an entry's id, by which entries are ordered; 0 if the id
// has none.
func entrySeq(id string) int64 {
	number, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// newestSeq returns the sequence number after which new entries of the queried types will appear.
// It looks at the newest entry of the default types and of the queried types and takes the higher
// number: a rare type's newest entry may be very old, and each poll would page back to it. It fails
// with the error of a request.
func (c *Client) newestSeq(ctx context.Context, in ActivityQuery) (top int64, err error) {
	for _, types := range slices.Compact([]string{"", in.Types}) {
		in.Types = types
		list, err := fetch[List[ActivityEntry]](ctx, c, &request{method: http.MethodGet, path: "/activity", query: in.values(Page{Limit: followPage})})
		if err != nil {
			return 0, err
		}
		switch {
		case len(list.Items) > 0:
			top = max(top, entrySeq(list.Items[0].ID))
		case list.NextCursor != nil: // nothing found down to the cursor
			top = max(top, entrySeq(*list.NextCursor))
		}
	}
	return top, nil
}

// entriesAfter returns the entries with a sequence number above seen, newest first. It fails with
// the error of a request and returns nothing then.
func (c *Client) entriesAfter(ctx context.Context, in ActivityQuery, seen int64) (fresh []ActivityEntry, err error) {
	for page := (Page{Limit: followPage}); ; {
		list, err := fetch[List[ActivityEntry]](ctx, c, &request{method: http.MethodGet, path: "/activity", query: in.values(page)})
		if err != nil {
			return nil, err
		}
		for _, h := range list.Items {
			if entrySeq(h.ID) <= seen {
				return fresh, nil
			}
			fresh = append(fresh, h)
		}
		if list.NextCursor == nil || *list.NextCursor == "" {
			return fresh, nil
		}
		if at := entrySeq(*list.NextCursor); at > 0 && at <= seen { // stop paging: entries of a rare type may be far back
			return fresh, nil
		}
		page.Cursor = *list.NextCursor
	}
}
