package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Archive is a selection of files and folders to be downloaded as a zip, which the server builds
// while sending it. It expires after a day. The zip contains the files as they are at the time of
// the download.
type Archive struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`   // of the directory in the zip
	Total     int64     `json:"total"`  // files
	Failed    int64     `json:"failed"` // unreadable files among Total, named by err.txt in the zip
	Size      int64     `json:"size"`   // size of the zip in bytes
	ETag      string    `json:"etag"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewArchive selects the contents of an archive: up to 20,000 nodes, or one folder.
type NewArchive struct {
	Nodes  []string `json:"nodes,omitempty"`
	Folder string   `json:"folder,omitempty"`
	Name   string   `json:"name,omitempty"` // of the directory in the zip
}

// CreateArchive creates an archive to be downloaded with GetArchive within a day. Nothing is
// copied; the server computes the zip at each download.
func (c *Client) CreateArchive(ctx context.Context, in NewArchive) (Archive, error) {
	return fetch[Archive](ctx, c, &request{method: http.MethodPost, path: "/archives", input: in, withKey: true})
}

// GetArchive downloads the zip of an archive to the file to. After an interruption, a later call
// for an archive of the same files resumes. ErrChanged reports that a file changed since
// CreateArchive; create a new archive. progress may be nil.
func (c *Client) GetArchive(ctx context.Context, a Archive, to string, progress Progress) error {
	return c.getZip(ctx, zipFile{"/archives/" + url.PathEscape(a.ID), a.Name + ".zip", a.Size, a.ETag}, to, progress)
}
