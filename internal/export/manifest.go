package export

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

// Item is a line of a manifest, the list of files that a client sends instead of a selection.
// Exactly one of Node, Path and URL names the source. ID is the client's own id of the document; it
// may be empty.
type Item struct {
	ID   string `json:"id,omitempty"`
	Node string `json:"node,omitempty"` // node id of a file
	Path string `json:"path,omitempty"` // absolute path in the drive
	URL  string `json:"url,omitempty"`  // with an allowed host
	Name string `json:"name,omitempty"` // path in the zip with '/' between folders; empty: the name of the file
}

const (
	maxDoc  = 255  // bytes of Item.ID
	maxText = 4096 // bytes of each other field
)

// badItem returns the BadRequest error, reason Malformed, for a field of an item. expected tells
// the client what the field should be.
func badItem(field, expected string) error {
	return drive.BadField(field, drive.Malformed, "expected", expected)
}

// listEntry validates the item and converts it to a list entry without a number. It returns
// BadRequest for texts that are too long or not on one line, and unless exactly one of node, path
// and url is given.
func (it Item) listEntry() (w listEntry, err error) {
	w = listEntry{Doc: it.ID, URL: it.URL, Path: it.Path, Name: it.Name}
	for field, text := range map[string]string{"id": it.ID, "path": it.Path, "url": it.URL, "name": it.Name} {
		limit := maxText
		if field == "id" {
			limit = maxDoc
		}
		if len(text) > limit {
			return listEntry{}, drive.BadField(field, drive.TooLong, "limit", limit, "sent", len(text))
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\r\n\t") {
			return listEntry{}, badItem(field, "UTF-8 on one line")
		}
	}
	given := 0
	for _, s := range []string{it.Node, it.Path, it.URL} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return listEntry{}, drive.BadField("path", drive.NotTogether, "with", "url, node: exactly one of them")
	}
	return w, it.setSource(&w)
}

// setSource sets the source of w, a node, path or URL, and its name if the item has none. The name
// may stay empty. It returns BadRequest for an invalid id, URL or name, and the error of
// drive.ParsePath.
func (it Item) setSource(w *listEntry) (err error) {
	switch {
	case it.Node != "":
		if w.Node, err = drive.ParseID[drive.NodeID](it.Node); err != nil {
			return badItem("node", "an id")
		}
		w.Path = it.Node
	case it.Path != "":
		p, err := drive.ParsePath(it.Path)
		if err != nil {
			return err
		}
		if w.Path = p.String(); w.Name == "" {
			w.Name = path.Base(w.Path)
		}
	default:
		u, err := url.Parse(it.URL)
		if err != nil || u.Host == "" {
			return badItem("url", "an absolute address")
		}
		w.Path = u.Redacted()
		if w.Name == "" {
			w.Name = path.Base(u.Path)
		}
	}
	if w.Name == "." || w.Name == "/" {
		w.Name = ""
	}
	if strings.HasSuffix(w.Name, "/") { // a trailing slash marks a folder in a zip
		return badItem("name", "the name of a file")
	}
	return nil
}

// maxLine is the longest line of a manifest in bytes: every field at its limit, escaped.
const maxLine = 64 << 10

// ReadManifest reads up to limit items from r: as JSON lines if the first byte is '{', or else as
// CSV with a header line (id, path, url, node, name in any order). It validates each item, but
// looks nothing up. It returns BadRequest, which names the line, for an invalid item, BadRequest
// for an empty list, and TooLarge for more than limit items.
func ReadManifest(r io.Reader, limit int) (items []Item, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3) // already peeked
	}
	first, err := in.Peek(1)
	if errors.Is(err, io.EOF) {
		return nil, drive.BadField("body", drive.Required)
	}
	if err != nil {
		return nil, err
	}
	if first[0] == '{' {
		items, err = readLines(in, limit)
	} else {
		items, err = readCSV(in, limit)
	}
	if err == nil && len(items) == 0 {
		err = drive.BadField("manifest", drive.Malformed, "expected", "a list that is not empty")
	}
	return items, err
}

// lineError returns a BadRequest error that names line n of a manifest, counted from 1, and wraps
// err.
func lineError(n int, err error) error {
	return drive.Wrap(err, drive.BadRequest, "field", fmt.Sprintf("line %d", n), "reason", string(drive.Malformed),
		"expected", "{\"id\", \"path\" or \"url\" or \"node\", \"name\"}")
}

// readLines reads a manifest of JSON lines and skips empty lines. It returns BadRequest with the
// line for an invalid one, TooLarge above limit items, and the error of in. No lines are an empty
// result.
func readLines(in *bufio.Reader, limit int) (items []Item, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 4<<10), maxLine)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var it Item
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&it); err != nil || d.More() {
			return nil, lineError(n, err)
		}
		if items, err = appendItem(items, it, n, limit); err != nil {
			return nil, err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, lineError(n+1, lines.Err())
	}
	return items, lines.Err()
}

// appendItem appends the item of a line. It returns TooLarge if items has limit items already, and
// BadRequest with the line number for an invalid item.
func appendItem(items []Item, it Item, line, limit int) ([]Item, error) {
	if len(items) >= limit {
		return nil, drive.Fail(drive.TooLarge, "reason", "entries", "limit", limit, "sent", len(items)+1)
	}
	if _, err := it.listEntry(); err != nil {
		return nil, lineError(line, err)
	}
	return append(items, it), nil
}

// readCSV reads a manifest in CSV, whose first row names the columns. It returns BadRequest with
// the line for an unknown column or an invalid row, and TooLarge above limit items. A missing first
// row is an error.
func readCSV(in *bufio.Reader, limit int) (items []Item, err error) {
	r := csv.NewReader(in)
	head, err := r.Read()
	if err != nil {
		return nil, csvError(1, err)
	}
	set := make([]func(*Item, string), len(head))
	for i, name := range head {
		if set[i] = csvField(strings.ToLower(strings.TrimSpace(name))); set[i] == nil {
			return nil, lineError(1, fmt.Errorf("column %q", name))
		}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if err != nil {
			return nil, csvError(0, err)
		}
		line, _ := r.FieldPos(0)
		var it Item
		for i, text := range row {
			set[i](&it, text)
		}
		if items, err = appendItem(items, it, line, limit); err != nil {
			return nil, err
		}
	}
}

// csvError adds the line to a CSV syntax error. Errors of the underlying reader are returned
// unchanged.
func csvError(line int, err error) error {
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		return lineError(max(line, bad.Line), err)
	}
	return err
}

// csvField returns the setter for a CSV column, or nil for an unknown column.
func csvField(name string) func(*Item, string) {
	switch name {
	case "id":
		return func(it *Item, s string) { it.ID = s }
	case "node":
		return func(it *Item, s string) { it.Node = s }
	case "path":
		return func(it *Item, s string) { it.Path = s }
	case "url":
		return func(it *Item, s string) { it.URL = s }
	case "name":
		return func(it *Item, s string) { it.Name = s }
	}
	return nil
}
