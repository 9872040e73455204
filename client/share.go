package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Linked is the node of a link; of one that was deleted for good only the ID is known.
type Linked struct {
	ID   string   `json:"id"`
	Name string   `json:"name"`
	Type NodeType `json:"type"`
	Size int64    `json:"size"`
}

// Share is a link by which anybody may list and download a node.
type Share struct {
	ID           string     `json:"id"`
	Token        string     `json:"token"`
	URL          string     `json:"url"`
	Node         Linked     `json:"node"`
	Code         *string    `json:"code"`          // nil: none
	ExpiresAt    *time.Time `json:"expires_at"`    // nil: never
	MaxDownloads *int64     `json:"max_downloads"` // nil: any number
	Downloads    int64      `json:"downloads"`
	Views        int64      `json:"views"`
	CreatedAt    time.Time  `json:"created_at"`
	State        string     `json:"state"` // open, expired, used-up, gone
}

// AutoCode asks the server for a code.
const AutoCode = "auto"

// NewShare describes a share to be made.
type NewShare struct {
	Node         string `json:"node"`
	Code         string `json:"code,omitempty"`          // 4 to 16 letters and digits, or AutoCode; empty: none
	ExpiresIn    int64  `json:"expires_in,omitempty"`    // seconds; 0: never
	MaxDownloads int64  `json:"max_downloads,omitempty"` // 0: any number
}

// CreateShare makes a share.
func (c *Client) CreateShare(ctx context.Context, s NewShare) (Share, error) {
	return fetch[Share](ctx, c, &call{method: http.MethodPost, path: "/shares", in: s, key: true})
}

// Shares lists shares, the newest first, only of one node if it is not empty.
func (c *Client) Shares(ctx context.Context, node string, p Page) (List[Share], error) {
	query := p.values()
	if node != "" {
		query.Set("node", node)
	}
	return fetch[List[Share]](ctx, c, &call{method: http.MethodGet, path: "/shares", query: query})
}

// AllShares is Shares, all pages.
func (c *Client) AllShares(ctx context.Context, node string) iter.Seq2[Share, error] {
	return all(func(p Page) (List[Share], error) { return c.Shares(ctx, node, p) })
}

// DeleteShare ends a share.
func (c *Client) DeleteShare(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/shares/" + url.PathEscape(id)})
}

// Collect is a link by which anybody may send files into a folder.
type Collect struct {
	ID        string     `json:"id"`
	Token     string     `json:"token"`
	URL       string     `json:"url"`
	Folder    Linked     `json:"folder"`
	Title     string     `json:"title"`
	Message   string     `json:"message"`
	ExpiresAt *time.Time `json:"expires_at"` // nil: never
	MaxBytes  *int64     `json:"max_bytes"`  // nil: what the account has room for
	MaxFile   *int64     `json:"max_file"`   // nil: any
	Files     int64      `json:"files"`      // that have come
	Received  int64      `json:"received"`   // their bytes
	Arriving  int64      `json:"arriving"`   // declared bytes of what is on its way
	Left      *int64     `json:"left"`       // nil: no limit of its own
	CreatedAt time.Time  `json:"created_at"`
	State     string     `json:"state"` // open, expired, full, gone
}

// NewCollect describes a collect link to be made.
type NewCollect struct {
	Folder    string `json:"folder"`
	Title     string `json:"title"`
	Message   string `json:"message,omitempty"`
	ExpiresIn int64  `json:"expires_in,omitempty"` // seconds; 0: never
	MaxBytes  int64  `json:"max_bytes,omitempty"`  // of all files; 0: what the account has room for
	MaxFile   int64  `json:"max_file,omitempty"`   // of one file; 0: any
}

// CreateCollect makes a collect link.
func (c *Client) CreateCollect(ctx context.Context, n NewCollect) (Collect, error) {
	return fetch[Collect](ctx, c, &call{method: http.MethodPost, path: "/collects", in: n, key: true})
}

// Collects lists collect links, the newest first.
func (c *Client) Collects(ctx context.Context, p Page) (List[Collect], error) {
	return fetch[List[Collect]](ctx, c, &call{method: http.MethodGet, path: "/collects", query: p.values()})
}

// AllCollects is Collects, all pages.
func (c *Client) AllCollects(ctx context.Context) iter.Seq2[Collect, error] {
	return all(func(p Page) (List[Collect], error) { return c.Collects(ctx, p) })
}

// DeleteCollect ends a collect link; what has come stays.
func (c *Client) DeleteCollect(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/collects/" + url.PathEscape(id)})
}
