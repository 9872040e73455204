package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Root is the id of the folder that everything is in.
const Root = "root"

// NodeAt returns what is at an absolute path.
func (c *Client) NodeAt(ctx context.Context, path string) (Node, error) {
	return c.nodeAt(ctx, path, nil)
}

func (c *Client) nodeAt(ctx context.Context, path string, p *patience) (Node, error) {
	k := &call{method: http.MethodGet, path: "/nodes", query: url.Values{"path": {path}}, patience: p}
	return fetch[Node](ctx, c, k)
}

// Node returns a node by its id.
func (c *Client) Node(ctx context.Context, id string) (Node, error) {
	return fetch[Node](ctx, c, &call{method: http.MethodGet, path: nodePath(id)})
}

// Children lists a folder.
func (c *Client) Children(ctx context.Context, id string, p Page) (List[Node], error) {
	return fetch[List[Node]](ctx, c, &call{method: http.MethodGet, path: nodePath(id) + "/children", query: p.values()})
}

// AllChildren yields everything in a folder. An error is the last thing it yields.
func (c *Client) AllChildren(ctx context.Context, id string) iter.Seq2[Node, error] {
	return all(func(p Page) (List[Node], error) { return c.Children(ctx, id, p) })
}

// NewFolder describes a folder to be made, by Path or by Parent and Name.
type NewFolder struct {
	Path     string   `json:"path,omitempty"`
	Parent   string   `json:"parent,omitempty"`
	Name     string   `json:"name,omitempty"`
	Type     NodeType `json:"type"`
	Parents  bool     `json:"parents,omitempty"`
	Conflict Conflict `json:"conflict,omitempty"`
}

// CreateFolder makes a folder; one that is there already is name-taken.
func (c *Client) CreateFolder(ctx context.Context, f NewFolder) (Node, error) {
	f.Type = Folder
	return fetch[Node](ctx, c, &call{method: http.MethodPost, path: "/nodes", in: f, key: true})
}

// MakeFolder returns the folder at path; it and those above it are made where they are missing.
// created says whether it is new.
func (c *Client) MakeFolder(ctx context.Context, path string) (n Node, created bool, err error) {
	switch {
	case path == "/":
		n, err = c.Node(ctx, Root)
		return n, false, err
	case isTop(path):
		n, err = c.NodeAt(ctx, path)
		return n, false, err
	}
	n, err = c.CreateFolder(ctx, NewFolder{Path: path, Parents: true})
	if err == nil || !IsCode(err, CodeNameTaken) {
		return n, err == nil, err
	}
	taken := err
	if n, err = c.NodeAt(ctx, path); err == nil && n.Type != Folder {
		err = taken // by a file
	}
	return n, false, err
}

// Change says what of a node changes; what is zero stays.
type Change struct {
	Name     string     `json:"name,omitempty"`
	Parent   string     `json:"parent,omitempty"`
	Mtime    *time.Time `json:"mtime,omitempty"`
	Conflict Conflict   `json:"conflict,omitempty"`
	Rev      int64      `json:"-"` // when not 0, only if the node still has it
}

// ChangeNode renames or moves a node, or sets its mtime.
func (c *Client) ChangeNode(ctx context.Context, id string, ch Change) (Node, error) {
	k := &call{method: http.MethodPatch, path: nodePath(id), in: ch}
	if ch.Rev != 0 {
		k.setHeader("If-Match", `"`+itoa(ch.Rev)+`"`)
	}
	return settled[Node](ctx, c, k)
}

// CopyNode copies a node, and what is below it, into a folder. No byte is copied on the server
// either.
func (c *Client) CopyNode(ctx context.Context, id, parent, name string, conflict Conflict) (Node, error) {
	in := Change{Parent: parent, Name: name, Conflict: conflict}
	return settled[Node](ctx, c, &call{method: http.MethodPost, path: nodePath(id) + "/copy", in: in, key: true})
}

// DeleteNode puts a node into the trash, or away for good.
func (c *Client) DeleteNode(ctx context.Context, id string, permanent bool) error {
	k := &call{method: http.MethodDelete, path: nodePath(id)}
	if permanent {
		k.query = url.Values{"permanent": {"true"}}
	}
	_, err := settled[Node](ctx, c, k)
	return err
}

// RestoreNode takes a node back out of the trash.
func (c *Client) RestoreNode(ctx context.Context, id string, conflict Conflict) (Node, error) {
	in := Change{Conflict: conflict}
	return settled[Node](ctx, c, &call{method: http.MethodPost, path: nodePath(id) + "/restore", in: in, key: true})
}

// Trash lists what was deleted.
func (c *Client) Trash(ctx context.Context, p Page) (List[Node], error) {
	return Sharing{c}.Trash(ctx, "", p)
}

// AllTrash yields everything in the trash.
func (c *Client) AllTrash(ctx context.Context) iter.Seq2[Node, error] {
	return Sharing{c}.AllTrash(ctx, "")
}

// EmptyTrash deletes what is in the trash for good.
func (c *Client) EmptyTrash(ctx context.Context) error { return Sharing{c}.EmptyTrash(ctx, "") }

// settled is fetch for what may go on by itself: it follows the operation that a 202 points to
// until it has ended, and then returns the zero T.
func settled[T any](ctx context.Context, c *Client, k *call) (T, error) {
	var node T
	raw, err := fetch[json.RawMessage](ctx, c, k)
	if err != nil || len(raw) == 0 {
		return node, err
	}
	if k.status != http.StatusAccepted {
		err = json.Unmarshal(raw, &node)
		return node, err
	}
	var op Operation
	if err := json.Unmarshal(raw, &op); err != nil {
		return node, err
	}
	_, err = c.WaitOperation(ctx, op, nil)
	return node, err
}

func nodePath(id string) string { return "/nodes/" + url.PathEscape(id) }

// escapePath escapes an absolute path, segment by segment, for a URL.
func escapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
