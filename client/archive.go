package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Archive is a choice of files and folders that can be downloaded as a zip, which the server
// computes while it sends it. It is there for a day; what is sent is what the files are then.
type Archive struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`   // of the directory in the zip
	Total     int64     `json:"total"`  // files
	Failed    int64     `json:"failed"` // of them those that cannot be read; err.txt in the zip names them
	Size      int64     `json:"size"`   // of the zip in bytes, as the files are now
	ETag      string    `json:"etag"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewArchive names what shall be in a zip: up to 20,000 nodes, or one folder.
type NewArchive struct {
	Nodes  []string `json:"nodes,omitempty"`
	Folder string   `json:"folder,omitempty"`
	Name   string   `json:"name,omitempty"` // of the directory in the zip
}

// CreateArchive names files and folders that are to be downloaded as one zip, and says what it will
// be.
func (c *Client) CreateArchive(ctx context.Context, in NewArchive) (Archive, error) {
	return fetch[Archive](ctx, c, &call{method: http.MethodPost, path: "/archives", in: in, key: true})
}

// GetArchive downloads the zip of an archive to a file. An interruption does not lose what has
// come: a later call for an archive of the same files goes on. ErrChanged: a file has changed since
// the archive was made; make another one. progress may be nil.
func (c *Client) GetArchive(ctx context.Context, a Archive, to string, progress Progress) error {
	return c.getZip(ctx, zipFile{"/archives/" + url.PathEscape(a.ID), a.Name + ".zip", a.Size, a.ETag}, to, progress)
}
