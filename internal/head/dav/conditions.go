package dav

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// conditions checks If-Match, If-None-Match, If-Unmodified-Since (RFC 9110 §13.1) and If (RFC 4918
// §10.4) against the entry at the request's URL; nil if there is none. It fails with
// drive.Precondition if one does not hold. A folder has no tag, so only * matches it. It records in
// c.expect the state that it compared, so that a later change fails if that state no longer holds.
func (c *call) conditions(ctx context.Context, e *Entry) error {
	must, mustNot := server.JoinHeader(c.r.Header, "If-Match"), server.JoinHeader(c.r.Header, "If-None-Match")
	if must != "" && !matches(must, e, true) || mustNot != "" && matches(mustNot, e, false) || must == "" && modified(c.r, e) {
		return drive.Fail(drive.Precondition)
	}
	if err := expectConditions(ctx, c, e); err != nil {
		return err
	}
	return c.checkIf(ctx, e)
}

// modified reports whether a file has changed after If-Unmodified-Since, compared in whole seconds
// like Last-Modified. It is false without the header, for an invalid date (RFC 9110 §13.1.4), for a
// folder, and for a nil entry.
func modified(r *http.Request, e *Entry) bool {
	since, err := http.ParseTime(r.Header.Get("If-Unmodified-Since"))
	return err == nil && e != nil && !e.IsFolder() && e.MTime.Std().Truncate(time.Second).After(since)
}

// matches reports whether a comma-separated list of entity tags, or *, matches an entry; a nil
// entry never matches. With strong, weak tags (W/) do not match. It accepts tags without quotes,
// which some clients send.
func matches(list string, e *Entry, strong bool) bool {
	if e == nil {
		return false
	}
	if strings.TrimSpace(list) == "*" {
		return true
	}
	if e.IsFolder() {
		return false
	}
	now := strings.Trim(e.Tag(), `"`)
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
		s, weak := strings.CutPrefix(strings.TrimSpace(s), "W/")
		return !(weak && strong) && strings.Trim(s, `"`) == now
	})
}
