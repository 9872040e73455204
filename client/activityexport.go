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

// HappenedLine is an entry of an export, and the line of JSON that it came as.
type HappenedLine struct {
	Happened
	Line []byte // ends with a line break
}

// ExportActivity yields all that Activity does, the oldest first, after the entry with the id
// after (empty: from the first one on). A cut connection is made again, and goes on after the last
// entry. Without an error at its end it was all.
func (c *Client) ExportActivity(ctx context.Context, in ActivityQuery, after string) iter.Seq2[HappenedLine, error] {
	return c.export(ctx, "/activity/export", in, after)
}

// ExportActivityOf is ExportActivity of what ActivityOf yields; of all users when user is empty.
// Administrators may ask.
func (c *Client) ExportActivityOf(ctx context.Context, user, types, after string) iter.Seq2[HappenedLine, error] {
	path := "/admin/activity/export"
	if user != "" {
		path = userPath(user) + "/activity/export"
	}
	return c.export(ctx, path, ActivityQuery{Types: types}, after)
}

// errStop says that whoever ranges over an export wants no more.
var errStop = errors.New("no more is wanted")

func (c *Client) export(ctx context.Context, path string, in ActivityQuery, after string) iter.Seq2[HappenedLine, error] {
	return func(yield func(HappenedLine, error) bool) {
		p := newPatience(c.opt.GiveUp)
		p.notify = c.opt.Waiting
		for failures := 0; ; {
			err := c.exportOnce(ctx, path, in.exported(after), func(h HappenedLine) bool {
				after, failures = h.ID, 0
				p.touch()
				return yield(h, nil)
			})
			switch {
			case err == nil || errors.Is(err, errStop):
				return
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			default:
				failures++
				err = c.pause(ctx, p, judge(err), failures, err)
			}
			if err != nil {
				yield(HappenedLine{}, err)
				return
			}
		}
	}
}

func (in ActivityQuery) exported(after string) url.Values {
	query := in.values(Page{})
	query.Del("limit")
	if after != "" {
		query.Set("after", after)
	}
	return query
}

// exportOnce is one attempt; nil: it has come to the end.
func (c *Client) exportOnce(ctx context.Context, path string, query url.Values, each func(HappenedLine) bool) error {
	resp, err := c.roundTrip(ctx, &call{method: http.MethodGet, path: path, query: query}, false)
	if err != nil {
		return err
	}
	defer letGo(resp.Body)
	for lines := bufio.NewReaderSize(resp.Body, 64<<10); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF): // by a proxy that took a cut for an end
			return asCut(ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return asCut(ctx, err)
		}
		h := HappenedLine{Line: line}
		if err := json.Unmarshal(line, &h.Happened); err != nil {
			return fmt.Errorf("read an entry of the export: %w", err)
		}
		if !each(h) {
			return errStop
		}
	}
}
