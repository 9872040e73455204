package dav

import (
	"context"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/server"
)

// conditions checks If-Match and If-None-Match (RFC 9110 §13.1) and If (RFC 4918 §10.4) against
// what is at the address. A folder has no tag: only * can match it.
func (c *call) conditions(ctx context.Context, e *Entry) error {
	must, mustNot := server.Joined(c.r.Header, "If-Match"), server.Joined(c.r.Header, "If-None-Match")
	if must != "" && !matches(must, e, true) || mustNot != "" && matches(mustNot, e, false) {
		return drive.Fail(drive.Precondition)
	}
	return c.checkIf(ctx, e)
}

// conditional reports whether the request is bound to what is at the address.
func (c *call) conditional() bool {
	return c.r.Header.Get("If-Match") != "" || c.r.Header.Get("If-None-Match") != "" || c.r.Header.Get("If") != ""
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
