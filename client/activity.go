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

// ErrNothingToTakeBack says that what happened cannot be undone, or is undone already.
var ErrNothingToTakeBack = errors.New("there is nothing to take back")

// Happened is one thing that was done.
type Happened struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Type string    `json:"type"` // such as node.moved
	By   *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"by"` // nil: the server itself, or somebody without an account
	Head    string          `json:"head"` // how it came: api, tus, draft
	Address string          `json:"address"`
	Account string          `json:"account_id"`
	Node    string          `json:"node_id"`
	Folder  string          `json:"folder_id"`
	Name    string          `json:"name"`
	Path    string          `json:"path"`
	Data    json.RawMessage `json:"data"`
	Restore string          `json:"restore"` // what takes it back: trash, version, move; empty: nothing does
}

// ActivityQuery says what of the activity is asked for.
type ActivityQuery struct {
	Node  string // id of a file or folder: only what was done there; empty: all of a place
	Space string // name or id; empty: the caller's own drive
	Types string // separated by commas; empty: all but those of uploads
}

// Activity yields what happened, the newest first.
func (c *Client) Activity(ctx context.Context, in ActivityQuery) iter.Seq2[Happened, error] {
	return all(func(p Page) (List[Happened], error) {
		return fetch[List[Happened]](ctx, c, &call{method: http.MethodGet, path: "/activity", query: in.values(p)})
	})
}

// ActivityOf yields what happened to the account of a user, the newest first: logins, tokens,
// passwords, settings. Administrators may ask. types is as ActivityQuery.Types.
func (c *Client) ActivityOf(ctx context.Context, user, types string) iter.Seq2[Happened, error] {
	return all(func(p Page) (List[Happened], error) {
		return fetch[List[Happened]](ctx, c, &call{method: http.MethodGet, path: userPath(user) + "/activity", query: ActivityQuery{Types: types}.values(p)})
	})
}

func (in ActivityQuery) values(p Page) url.Values {
	query := p.values()
	for name, value := range map[string]string{"node": in.Node, "space": in.Space, "type": in.Types} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// TakeBack undoes what happened, where that has a meaning: it brings a node back from the trash,
// makes the content before a change current again, or moves a node to where it was.
func (c *Client) TakeBack(ctx context.Context, h Happened) (Node, error) {
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
		return fetch[Node](ctx, c, &call{method: http.MethodPost, path: at + "/restore", in: struct{}{}})
	case "version":
		return fetch[Node](ctx, c, &call{method: http.MethodPost, path: at + "/versions/" + url.PathEscape(was.Version) + "/restore", in: struct{}{}, key: true})
	case "move":
		return fetch[Node](ctx, c, &call{method: http.MethodPatch, path: at, in: struct {
			Parent string `json:"parent,omitempty"`
			Name   string `json:"name,omitempty"`
		}{was.Folder, was.Name}})
	}
	return Node{}, ErrNothingToTakeBack
}
