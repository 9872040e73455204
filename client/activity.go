package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// ErrNotUndoable reports that an activity entry cannot be undone or has already been undone.
var ErrNotUndoable = errors.New("there is nothing to take back")

// ActivityEntry is an entry of the activity log.
type ActivityEntry struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Type string    `json:"type"` // such as node.moved
	By   *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"by"` // nil: the server, or a visitor without an account
	Head    string          `json:"head"` // protocol of the request, such as api, tus, draft
	Address string          `json:"address"`
	Account string          `json:"account_id"`
	Node    string          `json:"node_id"`
	Folder  string          `json:"folder_id"`
	Name    string          `json:"name"`
	Path    string          `json:"path"`
	Data    json.RawMessage `json:"data"`
	Restore string          `json:"restore"` // how UndoActivity undoes the entry: trash, version, move; empty: it cannot be undone
}

// ActivityQuery selects activity entries.
type ActivityQuery struct {
	Node  string // id of a file or folder; empty: all nodes
	Space string // name or id; empty: the caller's own drive
	Types string // comma-separated; empty: all but upload types
}

// Activity yields the matching entries, newest first. If a request fails, the last pair is a zero
// value and the error.
func (c *Client) Activity(ctx context.Context, in ActivityQuery) iter.Seq2[ActivityEntry, error] {
	return all(func(p Page) (List[ActivityEntry], error) {
		return fetch[List[ActivityEntry]](ctx, c, &request{method: http.MethodGet, path: "/activity", query: in.values(p)})
	})
}

// ActivityOf yields the entries about a user's account, newest first: logins, tokens, passwords,
// settings. It requires an administrator. types is as in ActivityQuery. If a request fails, the
// last pair is a zero value and the error.
func (c *Client) ActivityOf(ctx context.Context, user, types string) iter.Seq2[ActivityEntry, error] {
	return all(func(p Page) (List[ActivityEntry], error) {
		return fetch[List[ActivityEntry]](ctx, c, &request{method: http.MethodGet, path: userPath(user) + "/activity", query: ActivityQuery{Types: types}.values(p)})
	})
}

// values encodes the query and the page as URL parameters. Empty fields are left out.
func (in ActivityQuery) values(p Page) url.Values {
	query := p.values()
	for name, value := range map[string]string{"node": in.Node, "space": in.Space, "type": in.Types} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// UndoActivity undoes an activity entry as its Restore field says: it restores a node from the
// trash, makes the previous version current, or moves a node back. It returns the node.
// ErrNotUndoable reports that Restore is empty or unknown.
func (c *Client) UndoActivity(ctx context.Context, h ActivityEntry) (Node, error) {
	var was struct {
		Version string `json:"was_version"`
		Folder  string `json:"was_folder"`
		Name    string `json:"was_name"`
	}
	if err := json.Unmarshal(h.Data, &was); err != nil {
		return Node{}, err
	}
	at := "/nodes/" + url.PathEscape(h.Node)
	switch h.Restore {
	case "trash":
		return fetch[Node](ctx, c, &request{method: http.MethodPost, path: at + "/restore", input: struct{}{}})
	case "version":
		return fetch[Node](ctx, c, &request{method: http.MethodPost, path: at + "/versions/" + url.PathEscape(was.Version) + "/restore", input: struct{}{}, withKey: true})
	case "move":
		return fetch[Node](ctx, c, &request{method: http.MethodPatch, path: at, input: struct {
			Parent string `json:"parent,omitempty"`
			Name   string `json:"name,omitempty"`
		}{was.Folder, was.Name}})
	}
	return Node{}, ErrNotUndoable
}
