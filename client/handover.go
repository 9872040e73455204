package client

import (
	"context"
	"net/http"
	"net/url"
)

// Handover is the progress of moving the files of a leaving user to another user or a space.
type Handover struct {
	ID       string `json:"id"`    // of the operation
	State    string `json:"state"` // running, done, failed
	Done     int64  `json:"done"`  // files and folders
	Total    int64  `json:"total"`
	WaitsFor string `json:"waits_for"` // "quota": paused because the receiver's quota is exhausted; empty: not paused
	UserID   string `json:"user_id"`
	To       string `json:"to"`       // name of the receiving user or space
	ToSpace  bool   `json:"to_space"` // whether To is a space
	FolderID string `json:"folder_id"`
}

// NewHandover names the receiver of a handover: exactly one of ToUser and ToSpace.
type NewHandover struct {
	ToUser  string `json:"to_user,omitempty"`  // id
	ToSpace string `json:"to_space,omitempty"` // id
	Folder  string `json:"folder,omitempty"`   // name of the folder to create for the files; empty: chosen by the server
}

// HandOver disables a user and starts moving all files of the user's drive to the receiver. It
// requires an administrator. The move continues on the server; see HandoverOf.
func (s Sharing) HandOver(ctx context.Context, user string, in NewHandover) (Handover, error) {
	return fetch[Handover](ctx, s.c, &request{method: http.MethodPost, path: "/admin/users/" + url.PathEscape(user) + "/handover", input: in, withKey: true})
}

// HandoverOf returns the latest handover of a user's files. It fails with CodeNotFound if there was
// none in the last 7 days.
func (s Sharing) HandoverOf(ctx context.Context, user string) (Handover, error) {
	return fetch[Handover](ctx, s.c, &request{method: http.MethodGet, path: "/admin/users/" + url.PathEscape(user) + "/handover"})
}
