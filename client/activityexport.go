package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
)

// ActivityLine is an entry of an activity export, with the JSON line that it was decoded from.
type ActivityLine struct {
	ActivityEntry
	Line []byte // including the line break
}

// ExportActivity yields all entries that match the query, oldest first, starting after the entry
// with the id after; empty: from the beginning. It resumes after a broken connection. It yields an
// error last; without an error, the export is complete.
func (c *Client) ExportActivity(ctx context.Context, in ActivityQuery, after string) iter.Seq2[ActivityLine, error] {
	return c.exportEntries(ctx, "/activity/export", in, after)
}

// ExportActivityOf yields all entries about a user's account that match the query, or about all
// accounts if user is empty, oldest first, starting after the entry with the id after; empty: from
// the beginning. It requires an administrator. It resumes after a broken connection. It yields an
// error last; without an error, the export is complete.
func (c *Client) ExportActivityOf(ctx context.Context, user, types, after string) iter.Seq2[ActivityLine, error] {
	path := "/admin/activity/export"
	if user != "" {
		path = userPath(user) + "/activity/export"
	}
	return c.exportEntries(ctx, path, ActivityQuery{Types: types}, after)
}

// errStop reports that the caller left its range loop.
var errStop = errors.New("no more is wanted")

// exportEntries yields the entries of an export endpoint that come after the id after; "" means
// from the oldest kept one. It reconnects after the last yielded entry. An error is yielded once,
// at the end, with a zero entry.
func (c *Client) exportEntries(ctx context.Context, path string, in ActivityQuery, after string) iter.Seq2[ActivityLine, error] {
	return func(yield func(ActivityLine, error) bool) {
		p := newRetryBudget(c.opt.RetryFor)
		p.notify = c.opt.OnRetry
		for failures := 0; ; {
			err := c.exportOnce(ctx, path, in.exportValues(after), func(h ActivityLine) bool {
				after, failures = h.ID, 0
				p.reset()
				return yield(h, nil)
			})
			switch {
			case err == nil || errors.Is(err, errStop):
				return
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			default:
				failures++
				err = c.backoff(ctx, p, classifyError(err), failures, err)
			}
			if err != nil {
				yield(ActivityLine{}, err)
				return
			}
		}
	}
}

// exportValues encodes the query of an export as URL parameters, without a page limit. after is the
// id of the event behind which the export continues; "" starts at the beginning.
func (in ActivityQuery) exportValues(after string) url.Values {
	query := in.values(Page{})
	query.Del("limit")
	if after != "" {
		query.Set("after", after)
	}
	return query
}

// exportOnce makes one attempt and calls each for every entry. nil means that the export is
// complete, errStop that each returned false.
func (c *Client) exportOnce(ctx context.Context, path string, query url.Values, each func(ActivityLine) bool) error {
	resp, err := c.roundTrip(ctx, &request{method: http.MethodGet, path: path, query: query}, false)
	if err != nil {
		return err
	}
	defer closeQuietly(resp.Body)
	for lines := bufio.NewReaderSize(resp.Body, 64<<10); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF): // a proxy truncated the reply
			return wrapConnError(ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return wrapConnError(ctx, err)
		}
		h := ActivityLine{Line: line}
		if err := json.Unmarshal(line, &h.ActivityEntry); err != nil {
			return fmt.Errorf("read an entry of the export: %w", err)
		}
		if !each(h) {
			return errStop
		}
	}
}
