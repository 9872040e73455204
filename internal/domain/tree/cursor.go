package tree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"

	"smartdrive/internal/base/drive"
)

// cursor is the place of a reader in a list: the key of the last item it has. It is handed out as
// base64url of JSON, needs no signature (it can only say where to go on in the reader's own list)
// and names the list, so that it fits no other.
type cursor struct {
	V      int    `json:"v"`
	List   string `json:"l"`
	Desc   bool   `json:"d,omitempty"`
	Number int64  `json:"n"`
	Text   string `json:"t"`
	Files  bool   `json:"f,omitempty"` // the folders, which come first, are over

	started bool
}

// cursorVersion is the version of the format; a cursor of another one is stale.
const cursorVersion = 1

// parseCursor reads a cursor of the list; the empty text is the beginning. Anything else than what
// page gave out for the same list and direction is CursorInvalid.
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

func (c cursor) String() string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and strings always have a JSON form
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// page cuts what was read, one more than limit, to a page with the cursor for the next.
func (c cursor) page(nodes []Node, limit int, key func(Node) (int64, string)) Page {
	if len(nodes) <= limit {
		return Page{Items: nodes}
	}
	nodes = nodes[:limit]
	c.Number, c.Text = key(nodes[limit-1])
	return Page{Items: nodes, Next: c.String()}
}
