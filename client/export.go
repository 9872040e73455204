package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Export is one zip of many documents.
type Export struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Origin    string     `json:"origin"` // manual, schedule, supplement
	Root      string     `json:"root"`
	Revision  int64      `json:"revision"`
	Set       string     `json:"set"`   // of a list that is too long for one zip: the first part of it
	Part      int64      `json:"part"`  // from 1
	Parts     int64      `json:"parts"` // 1: it is not split
	State     string     `json:"state"` // pending, running, sealed, aborted, failed, cancelled, expired
	Priority  int64      `json:"priority"`
	Total     int64      `json:"total"`
	Collected int64      `json:"collected"`
	Failed    int64      `json:"failed"`
	Bytes     int64      `json:"bytes"`
	Rate      float64    `json:"rate"` // entries a second
	ETA       *int64     `json:"eta"`  // seconds
	Error     string     `json:"error"`
	Size      int64      `json:"size"` // of the zip; 0 until it is sealed
	ETag      string     `json:"etag"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	Joined    bool       `json:"joined"` // there was one of the same folder and month, and this is it
}

// Ended reports whether nothing more will come of it by itself.
func (x Export) Ended() bool {
	return x.State != "pending" && x.State != "running" && x.State != "aborted"
}

// Filename is what the zip is called.
func (x Export) Filename() string {
	name := x.Name
	if x.Parts > 1 {
		name += fmt.Sprintf("-%dof%d", x.Part, x.Parts)
	}
	if x.Revision > 1 {
		name += fmt.Sprintf("-%d", x.Revision)
	}
	return name + ".zip"
}

// ExportFilter says which files of folders are meant.
type ExportFilter struct {
	Month string `json:"month,omitempty"` // "2026-10"
	Zone  string `json:"zone,omitempty"`
	From  string `json:"from,omitempty"` // "2026-10-01": the first day
	To    string `json:"to,omitempty"`   // the last day
	// SinceLast means what has changed since the last export of the folder by this filter.
	SinceLast bool     `json:"since_last,omitempty"`
	Ext       []string `json:"ext,omitempty"`
	Pattern   string   `json:"pattern,omitempty"`
	// Documents means the PDFs of documents that were taken in, by their own date; the folder is
	// /intake or that of a source.
	Documents bool `json:"documents,omitempty"`
	XML       bool `json:"xml,omitempty"` // beside each PDF the file that the document was read from
	// Of narrows the documents.
	Of DocumentSelection `json:"of,omitzero"`
}

// DocumentSelection says which documents are exported; empty fields mean all.
type DocumentSelection struct {
	Seller   string `json:"seller,omitempty"` // its id or name
	Buyer    string `json:"buyer,omitempty"`
	Min      string `json:"min,omitempty"` // smallest total with VAT
	Max      string `json:"max,omitempty"`
	Currency string `json:"currency,omitempty"`
	Type     string `json:"type,omitempty"`  // code of UNTDID 1001
	State    string `json:"state,omitempty"` // accepted, conflict
	Query    string `json:"q,omitempty"`     // occurs in number, names or ids
}

// NewExport asks for a zip of nodes or of one folder.
type NewExport struct {
	Nodes    []string     `json:"nodes,omitempty"`
	Folder   string       `json:"folder,omitempty"`
	Filter   ExportFilter `json:"filter"`
	Name     string       `json:"name,omitempty"`
	Names    string       `json:"names,omitempty"` // pattern of the paths in the zip
	Index    bool         `json:"index,omitempty"` // index.csv in the zip
	Priority int64        `json:"priority,omitempty"`
	Again    bool         `json:"again,omitempty"` // another one of a folder's month
}

// CreateExport asks for a zip.
func (c *Client) CreateExport(ctx context.Context, in NewExport) (Export, error) {
	return fetch[Export](ctx, c, &call{method: http.MethodPost, path: "/exports", in: in, key: true})
}

// CreateExportOf asks for a zip of a list in JSON lines or CSV; of in the name, the priority and
// the index count.
func (c *Client) CreateExportOf(ctx context.Context, in NewExport, list []byte) (Export, error) {
	query := url.Values{}
	if in.Name != "" {
		query.Set("name", in.Name)
	}
	if in.Priority != 0 {
		query.Set("priority", itoa(in.Priority))
	}
	if in.Index {
		query.Set("index", "1")
	}
	k := &call{method: http.MethodPost, path: "/exports/manifest", query: query, key: true, body: func() (*upBody, error) {
		return &upBody{size: int64(len(list)), from: bytes.NewReader(list)}, nil
	}}
	k.setHeader("Content-Type", "application/octet-stream")
	return fetch[Export](ctx, c, k)
}

func exportPath(id string) string { return "/exports/" + url.PathEscape(id) }

// Export returns one.
func (c *Client) Export(ctx context.Context, id string) (Export, error) {
	return fetch[Export](ctx, c, &call{method: http.MethodGet, path: exportPath(id)})
}

// AllExports lists exports, the newest first.
func (c *Client) AllExports(ctx context.Context) iter.Seq2[Export, error] {
	return all(func(p Page) (List[Export], error) {
		return fetch[List[Export]](ctx, c, &call{method: http.MethodGet, path: "/exports", query: p.values()})
	})
}

// ExportSet lists the parts of a set.
func (c *Client) ExportSet(ctx context.Context, set string) iter.Seq2[Export, error] {
	return all(func(p Page) (List[Export], error) {
		query := p.values()
		query.Set("set", set)
		return fetch[List[Export]](ctx, c, &call{method: http.MethodGet, path: "/exports", query: query})
	})
}

// ExportFailure is an entry that could not be collected.
type ExportFailure struct {
	N      int64     `json:"n"`
	ID     string    `json:"id"` // as the asker named it
	Path   string    `json:"path"`
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
	At     time.Time `json:"at"`
}

// AllExportFailures lists what could not be collected.
func (c *Client) AllExportFailures(ctx context.Context, id string) iter.Seq2[ExportFailure, error] {
	return all(func(p Page) (List[ExportFailure], error) {
		return fetch[List[ExportFailure]](ctx, c, &call{method: http.MethodGet, path: exportPath(id) + "/errors", query: p.values()})
	})
}

// CancelExport ends one.
func (c *Client) CancelExport(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: exportPath(id)})
}

// ExportSource replaces the source of a failure.
type ExportSource struct {
	N    int64  `json:"n"`
	Path string `json:"path,omitempty"`
	URL  string `json:"url,omitempty"`
}

// SupplementExport asks for the next revision: what was missing alone, or everything.
func (c *Client) SupplementExport(ctx context.Context, id string, complete bool, sources []ExportSource) (Export, error) {
	in := struct {
		Mode  string         `json:"mode"`
		Items []ExportSource `json:"items,omitempty"`
	}{"alone", sources}
	if complete {
		in.Mode = "complete"
	}
	return fetch[Export](ctx, c, &call{method: http.MethodPost, path: exportPath(id) + "/supplement", in: in, key: true})
}
