package rest

import (
	"context"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

const (
	maxExtensions = 50 // extensions in one search: more than there are kinds of pictures
	maxExtension  = 32 // bytes
)

// searchRoutes returns the declarations of the search routes. It registers nothing.
func (n nodes) searchRoutes() []route {
	return []route{{
		id: "searchNodes", method: "GET", path: "/search", access: read, action: withoutBody(n.search),
		query: []param{
			{name: "q", doc: "occurs in the name, whatever its case; no character has a meaning of its own"},
			{name: "in", doc: "path of a folder: somewhere below it"},
			{name: "type", syntax: choice, choices: []string{"any", "file", "folder"}, doc: "files, folders, or both"},
			{name: "ext", doc: "what the name ends in after a dot, whatever its case; several with commas between"},
			{name: "min_size", syntax: integer, max: int64(drive.MaxFileSize), doc: "bytes; more than 0 leaves folders out"},
			{name: "max_size", syntax: integer, min: 1, max: int64(drive.MaxFileSize), def: int64(drive.MaxFileSize), doc: "bytes; leaves folders out"},
			{name: "after", doc: "RFC 3339: mtime at or after it"},
			{name: "before", doc: "RFC 3339: mtime before it"},
			limitParam, cursor,
		},
		summary:  "Find files and folders that are not in the trash, by name and by what a list shows of them; contents are not searched. Sorted by name, whatever its case. A page may be short, or empty, and yet have a next one.",
		outcomes: []outcome{jsonOutcome[api.Page[api.Node]](200, "a page")}, errors: []drive.Kind{drive.BadName, drive.NotFound, drive.CursorInvalid},
	}}
}

// search serves GET /search. It replies 200 with api.Page[api.Node]. Beyond the errors
// common to all routes it fails with drive.BadName, drive.NotFound or drive.CursorInvalid.
func (n nodes) search(ctx context.Context, c *call) (reply, error) {
	s := tree.Search{
		Name: c.query.Get("q"), MinSize: drive.ByteSize(c.number(param{name: "min_size"})), MaxSize: drive.ByteSize(c.number(param{name: "max_size"})),
		Limit: c.limit(), Cursor: c.query.Get(cursor.name),
	}
	switch {
	case len(s.Name) > drive.MaxNameBytes:
		return reply{}, drive.BadField("q", drive.TooLong, "limit", drive.MaxNameBytes, "sent", len(s.Name))
	case !utf8.ValidString(s.Name):
		return reply{}, drive.BadField("q", drive.Malformed, "expected", "UTF-8")
	}
	if t := c.query.Get("type"); t != "any" {
		s.Type = tree.Type(t)
	}
	var in drive.Address
	var err error
	if path := c.query.Get("in"); path != "" {
		if in, err = drive.ParseAddress(path); err != nil {
			return reply{}, err
		}
	}
	if s.After, err = c.time("after"); err != nil {
		return reply{}, err
	}
	if s.Before, err = c.time("before"); err != nil {
		return reply{}, err
	}
	if s.Ext, err = parseExtensions(c.query.Get("ext")); err != nil {
		return reply{}, err
	}
	return showPage(showNode)(n.files.Search(ctx, c.who, in, s))
}

// parseExtensions splits a list at commas and drops a leading dot of each extension; nil for an
// empty list. It fails with drive.BadRequest for an empty or too long extension or more than
// maxExtensions.
func parseExtensions(list string) (all []string, err error) {
	if list == "" {
		return nil, nil
	}
	for ext := range strings.SplitSeq(list, ",") {
		ext = strings.TrimPrefix(strings.TrimSpace(ext), ".")
		if ext == "" || len(ext) > maxExtension || !utf8.ValidString(ext) {
			return nil, drive.BadField("ext", drive.Malformed, "expected", "extensions of at most 32 bytes, as in jpg,png")
		}
		all = append(all, ext)
	}
	if len(all) > maxExtensions {
		return nil, drive.BadField("ext", drive.TooLong, "limit", maxExtensions, "sent", len(all))
	}
	return all, nil
}
