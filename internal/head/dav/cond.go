package dav

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/server"
)

// conditions checks If-Match, If-None-Match and If-Unmodified-Since (RFC 9110 §13.1) and If
// (RFC 4918 §10.4) against what is at the address. A folder has no tag: only * can match it.
func (c *call) conditions(ctx context.Context, e *Entry) error {
	must, mustNot := server.Joined(c.r.Header, "If-Match"), server.Joined(c.r.Header, "If-None-Match")
	if must != "" && !matches(must, e, true) || mustNot != "" && matches(mustNot, e, false) || must == "" && modified(c.r, e) {
		return drive.Fail(drive.Precondition)
	}
	if err := expectConditions(ctx, c, e); err != nil {
		return err
	}
	return c.checkIf(ctx, e)
}

// modified reports whether a file is younger than If-Unmodified-Since, to the second, as
// Last-Modified says it. What is no date is no condition (RFC 9110 §13.1.4).
func modified(r *http.Request, e *Entry) bool {
	since, err := http.ParseTime(r.Header.Get("If-Unmodified-Since"))
	return err == nil && e != nil && !e.IsFolder() && e.MTime.Std().Truncate(time.Second).After(since)
}

// matches compares a list of tags with that of an entry; nil: there is nothing. Clients send tags
// without quotes, too: they are taken as meant.
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
