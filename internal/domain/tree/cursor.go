package tree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"

	"example.org/smartdrive/internal/base/drive"
)

// cursor is the position of a reader in a list: the key of the last item it received. Its text form
// is base64url of JSON. It is not signed, because it only selects where the reader's own list
// continues. It contains the list's name, so that it is refused for another list.
type cursor struct {
	V      int    `json:"v"`
	List   string `json:"l"`
	Desc   bool   `json:"d,omitempty"`
	Number int64  `json:"n"`           // first part of the sort key, if numeric
	Text   string `json:"t"`           // the rest of the sort key
	Files  bool   `json:"f,omitempty"` // all folders, which come first, have been listed

	started bool // false: before the first item
}

// cursorVersion is the format version; a cursor with another version is refused.
const cursorVersion = 1

// parseCursor parses a cursor; empty text is the start of the list. It fails with CursorInvalid if
// the cursor is malformed or belongs to another list or direction.
func parseCursor(text, list string, desc bool) (cursor, error) {
	want := cursor{V: cursorVersion, List: list, Desc: desc}
	if text == "" {
		return want, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return cursor{}, drive.Wrap(err, drive.CursorInvalid)
	}
	var c cursor
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return cursor{}, drive.Wrap(err, drive.CursorInvalid)
	}
	if _, err := dec.Token(); err != io.EOF || c.V != want.V || c.List != list || c.Desc != desc {
		return cursor{}, drive.Fail(drive.CursorInvalid)
	}
	c.started = true
	return c, nil
}

// String returns the text form of c.
func (c cursor) String() string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // cannot fail: the fields are numbers and strings
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// page returns the first limit nodes and, if there are more, a cursor to continue from. key returns
// the sort key of a node.
func (c cursor) page(nodes []Node, limit int, key func(Node) (int64, string)) Page {
	if len(nodes) <= limit {
		return Page{Items: nodes}
	}
	nodes = nodes[:limit]
	c.Number, c.Text = key(nodes[limit-1])
	return Page{Items: nodes, Next: c.String()}
}
