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

// Root is the id of the top folder of the user's own drive.
const Root = "root"

// NodeAt returns the node at an absolute remote path. It fails with CodeNotFound or CodeBadName.
func (c *Client) NodeAt(ctx context.Context, path string) (Node, error) {
	return c.nodeAt(ctx, path, nil)
}

// nodeAt returns the node at a path. It retries within the budget p; nil uses the client's.
func (c *Client) nodeAt(ctx context.Context, path string, p *retryBudget) (Node, error) {
	k := &request{method: http.MethodGet, path: "/nodes", query: url.Values{"path": {path}}, budget: p}
	return fetch[Node](ctx, c, k)
}

// Node returns a node by its id, also one in the trash; "root" is the caller's root folder. It
// fails with CodeNotFound.
func (c *Client) Node(ctx context.Context, id string) (Node, error) {
	return fetch[Node](ctx, c, &request{method: http.MethodGet, path: nodePath(id)})
}

// Children returns a page of a folder's nodes; an empty next cursor ends the list. It fails with
// CodeNotFound.
func (c *Client) Children(ctx context.Context, id string, p Page) (List[Node], error) {
	return fetch[List[Node]](ctx, c, &request{method: http.MethodGet, path: nodePath(id) + "/children", query: p.values()})
}

// AllChildren yields all nodes of a folder. If a request fails, the last pair is a zero value and
// the error.
func (c *Client) AllChildren(ctx context.Context, id string) iter.Seq2[Node, error] {
	return all(func(p Page) (List[Node], error) { return c.Children(ctx, id, p) })
}

// NewFolder describes a folder for CreateFolder: either Path, or Parent and Name.
type NewFolder struct {
	Path     string   `json:"path,omitempty"`
	Parent   string   `json:"parent,omitempty"`
	Name     string   `json:"name,omitempty"`
	Type     NodeType `json:"type"`
	Parents  bool     `json:"parents,omitempty"`
	Conflict Conflict `json:"conflict,omitempty"`
}

// CreateFolder creates a folder. If the name is taken, it fails with CodeNameTaken.
func (c *Client) CreateFolder(ctx context.Context, f NewFolder) (Node, error) {
	f.Type = Folder
	return fetch[Node](ctx, c, &request{method: http.MethodPost, path: "/nodes", input: f, withKey: true})
}

// MakeFolder returns the folder at path, creating it and its missing parents. created reports
// whether it is new. If a file has that name, it fails with CodeNameTaken.
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
		err = taken // the name belongs to a file
	}
	return n, false, err
}

// Change describes changes of a node. Zero fields stay unchanged.
type Change struct {
	Name     string     `json:"name,omitempty"`
	Parent   string     `json:"parent,omitempty"`
	Mtime    *time.Time `json:"mtime,omitempty"`
	Conflict Conflict   `json:"conflict,omitempty"`
	Rev      int64      `json:"-"` // if not 0, the change fails unless the node still has this revision
}

// ChangeNode renames or moves a node, or sets its mtime. If the server continues in the background,
// ChangeNode waits for the end and returns a zero Node.
func (c *Client) ChangeNode(ctx context.Context, id string, ch Change) (Node, error) {
	k := &request{method: http.MethodPatch, path: nodePath(id), input: ch}
	if ch.Rev != 0 {
		k.setHeader("If-Match", `"`+itoa(ch.Rev)+`"`)
	}
	return fetchAndWait[Node](ctx, c, k)
}

// CopyNode copies a node and its descendants into a folder, without copying content. If the server
// continues in the background, CopyNode waits for the end and returns a zero Node.
func (c *Client) CopyNode(ctx context.Context, id, parent, name string, conflict Conflict) (Node, error) {
	in := Change{Parent: parent, Name: name, Conflict: conflict}
	return fetchAndWait[Node](ctx, c, &request{method: http.MethodPost, path: nodePath(id) + "/copy", input: in, withKey: true})
}

// DeleteNode moves a node to the trash, or deletes it for good if permanent is set. It waits if the
// server continues in the background. It fails with CodeNotFound.
func (c *Client) DeleteNode(ctx context.Context, id string, permanent bool) error {
	k := &request{method: http.MethodDelete, path: nodePath(id)}
	if permanent {
		k.query = url.Values{"permanent": {"true"}}
	}
	_, err := fetchAndWait[Node](ctx, c, k)
	return err
}

// RestoreNode restores a node from the trash. If the server continues in the background,
// RestoreNode waits for the end and returns a zero Node.
func (c *Client) RestoreNode(ctx context.Context, id string, conflict Conflict) (Node, error) {
	in := Change{Conflict: conflict}
	return fetchAndWait[Node](ctx, c, &request{method: http.MethodPost, path: nodePath(id) + "/restore", input: in, withKey: true})
}

// Trash returns a page of the trash of the user's own drive.
func (c *Client) Trash(ctx context.Context, p Page) (List[Node], error) {
	return Sharing{c}.Trash(ctx, "", p)
}

// AllTrash yields all nodes in the trash of the user's own drive. If a request fails, the last pair
// is a zero value and the error.
func (c *Client) AllTrash(ctx context.Context) iter.Seq2[Node, error] {
	return Sharing{c}.AllTrash(ctx, "")
}

// EmptyTrash permanently deletes all nodes in the trash of the user's own drive.
func (c *Client) EmptyTrash(ctx context.Context) error { return Sharing{c}.EmptyTrash(ctx, "") }

// fetchAndWait sends a request whose work may continue in the background, and returns the decoded
// reply. If the server replies 202, it waits until the operation has ended and returns the zero T.
// It fails with the operation's failure.
func fetchAndWait[T any](ctx context.Context, c *Client, k *request) (T, error) {
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

// nodePath returns the API path of a node.
func nodePath(id string) string { return "/nodes/" + url.PathEscape(id) }

// escapePath escapes each segment of an absolute path for a URL.
func escapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
