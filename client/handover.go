package client

import (
	"context"
	"net/http"
	"net/url"
)

// Handover is how far the files of a user who leaves have been given to somebody else.
type Handover struct {
	ID       string `json:"id"`    // of the operation
	State    string `json:"state"` // running, done, failed
	Done     int64  `json:"done"`  // files and folders
	Total    int64  `json:"total"`
	WaitsFor string `json:"waits_for"` // quota: the receiver has no room for the rest; empty: it does not wait
	UserID   string `json:"user_id"`
	To       string `json:"to"`       // name of the user or space
	ToSpace  bool   `json:"to_space"` // it is a space
	FolderID string `json:"folder_id"`
}

// NewHandover says who gets the files: ToUser or ToSpace.
type NewHandover struct {
	ToUser  string `json:"to_user,omitempty"`  // id
	ToSpace string `json:"to_space,omitempty"` // id
	Folder  string `json:"folder,omitempty"`   // name of the folder that is made for them; empty: the server's choice
}

// HandOver disables a user and begins to give all that is in the user's drive to somebody else.
// Administrators may.
func (s Sharing) HandOver(ctx context.Context, user string, in NewHandover) (Handover, error) {
	return fetch[Handover](ctx, s.c, &call{method: http.MethodPost, path: "/admin/users/" + url.PathEscape(user) + "/handover", in: in, key: true})
}

// HandoverOf returns the handover of a user that was begun last.
func (s Sharing) HandoverOf(ctx context.Context, user string) (Handover, error) {
	return fetch[Handover](ctx, s.c, &call{method: http.MethodGet, path: "/admin/users/" + url.PathEscape(user) + "/handover"})
}
