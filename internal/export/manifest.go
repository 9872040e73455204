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

	"smartdrive/internal/base/drive"
)

// Item is a line of a manifest: exactly one of Node, Path and URL says what, ID is the asker's own
// name for it.
type Item struct {
	ID   string `json:"id,omitempty"`
	Node string `json:"node,omitempty"` // id of a file of the drive
	Path string `json:"path,omitempty"` // absolute, in the drive
	URL  string `json:"url,omitempty"`  // of an allowed host
	Name string `json:"name,omitempty"` // in the zip, with '/' between folders; that of the file if absent
}

const (
	maxDoc  = 255  // bytes of Item.ID
	maxText = 4096 // bytes of its other fields
)

// badItem says what is wrong with a line.
func badItem(field, expected string) error {
	return drive.Bad(field, drive.Malformed, "expected", expected)
}

func (it Item) want() (w want, err error) {
	w = want{Doc: it.ID, URL: it.URL, Path: it.Path, Name: it.Name}
	for field, text := range map[string]string{"id": it.ID, "path": it.Path, "url": it.URL, "name": it.Name} {
		limit := maxText
		if field == "id" {
			limit = maxDoc
		}
		if len(text) > limit {
			return want{}, drive.Bad(field, drive.TooLong, "limit", limit, "sent", len(text))
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\r\n\t") {
			return want{}, badItem(field, "UTF-8 on one line")
		}
	}
	given := 0
	for _, s := range []string{it.Node, it.Path, it.URL} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return want{}, drive.Bad("path", drive.NotTogether, "with", "url, node: exactly one of them")
	}
	return w, it.aim(&w)
}

// aim fills in what the item is about.
func (it Item) aim(w *want) (err error) {
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
	if strings.HasSuffix(w.Name, "/") { // in a zip it is the name of a folder
		return badItem("name", "the name of a file")
	}
	return nil
}

// maxLine is the longest line of a manifest in bytes: every field at its longest, escaped.
const maxLine = 64 << 10

// ReadManifest reads a list of up to limit items, as JSON lines or as CSV with a header line (id,
// path, url, node, name in any order). Which it is, the first byte says. An error names the line; a
// list without an item is BadRequest.
func ReadManifest(r io.Reader, limit int) (items []Item, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3) // they were peeked at
	}
	first, err := in.Peek(1)
	if errors.Is(err, io.EOF) {
		return nil, drive.Bad("body", drive.Required)
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
		err = drive.Bad("manifest", drive.Malformed, "expected", "a list that is not empty")
	}
	return items, err
}

func atLine(n int, err error) error {
	return drive.Wrap(err, drive.BadRequest, "field", fmt.Sprintf("line %d", n), "reason", string(drive.Malformed),
		"expected", "{\"id\", \"path\" or \"url\" or \"node\", \"name\"}")
}

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
			return nil, atLine(n, err)
		}
		if items, err = appendItem(items, it, n, limit); err != nil {
			return nil, err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, atLine(n+1, lines.Err())
	}
	return items, lines.Err()
}

func appendItem(items []Item, it Item, line, limit int) ([]Item, error) {
	if len(items) >= limit {
		return nil, drive.Fail(drive.TooLarge, "reason", "entries", "limit", limit, "sent", len(items)+1)
	}
	if _, err := it.want(); err != nil {
		return nil, atLine(line, err)
	}
	return append(items, it), nil
}

func readCSV(in *bufio.Reader, limit int) (items []Item, err error) {
	r := csv.NewReader(in)
	head, err := r.Read()
	if err != nil {
		return nil, csvError(1, err)
	}
	set := make([]func(*Item, string), len(head))
	for i, name := range head {
		if set[i] = csvField(strings.ToLower(strings.TrimSpace(name))); set[i] == nil {
			return nil, atLine(1, fmt.Errorf("column %q", name))
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

// csvError leaves errors of the reader below as they are.
func csvError(line int, err error) error {
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		return atLine(max(line, bad.Line), err)
	}
	return err
}

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
