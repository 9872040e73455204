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

// Export is a batch of documents that the server collects into one zip.
type Export struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Origin    string    `json:"origin"` // manual, schedule, supplement
	Root      string    `json:"root"`
	Revision  int64     `json:"revision"`
	Set       string    `json:"set"`   // for a list too long for one zip: id of the first part
	Part      int64     `json:"part"`  // number of this part, from 1
	Parts     int64     `json:"parts"` // number of parts; 1: not split
	State     string    `json:"state"` // pending, running, sealed, aborted, failed, cancelled, expired
	Priority  int64     `json:"priority"`
	Total     int64     `json:"total"`
	Collected int64     `json:"collected"`
	Failed    int64     `json:"failed"`
	Bytes     int64     `json:"bytes"`
	Rate      float64   `json:"rate"` // entries per second
	ETA       *int64    `json:"eta"`  // seconds
	Error     string    `json:"error"`
	Size      int64     `json:"size"` // size of the zip in bytes; 0 until sealed
	ETag      string    `json:"etag"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt *Time     `json:"expires_at"`
	Joined    bool      `json:"joined"` // CreateExport returned an existing export of the same folder and month
}

// Ended reports whether the export will not change by itself any more.
func (x Export) Ended() bool {
	return x.State != "pending" && x.State != "running" && x.State != "aborted"
}

// Filename returns the file name of the zip: NAME.zip, with the number of the part if there are
// several, and with the revision if it is not the first.
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

// ExportFilter selects files of a folder.
type ExportFilter struct {
	Month string `json:"month,omitempty"` // "2026-10"
	Zone  string `json:"zone,omitempty"`
	From  string `json:"from,omitempty"` // first day, such as "2026-10-01"
	To    string `json:"to,omitempty"`   // last day
	// SinceLast selects files changed since the last export of the folder with this filter.
	SinceLast bool     `json:"since_last,omitempty"`
	Ext       []string `json:"ext,omitempty"`
	Pattern   string   `json:"pattern,omitempty"`
	// Documents selects the PDFs of accepted documents by document date. The folder must be
	// /intake or the folder of a source.
	Documents bool `json:"documents,omitempty"`
	XML       bool `json:"xml,omitempty"` // add the original file of each document beside its PDF
	// Of narrows the documents selected by Documents.
	Of DocumentSelection `json:"of,omitzero"`
}

// DocumentSelection selects documents. Empty fields match all.
type DocumentSelection struct {
	Seller   string `json:"seller,omitempty"` // id or name
	Buyer    string `json:"buyer,omitempty"`
	Min      string `json:"min,omitempty"` // smallest total with VAT
	Max      string `json:"max,omitempty"`
	Currency string `json:"currency,omitempty"`
	Type     string `json:"type,omitempty"`  // UNTDID 1001 code
	State    string `json:"state,omitempty"` // accepted, conflict
	Query    string `json:"q,omitempty"`     // text in the number, names or ids
}

// NewExport describes an export for CreateExport: Nodes or one Folder.
type NewExport struct {
	Nodes    []string     `json:"nodes,omitempty"`
	Folder   string       `json:"folder,omitempty"`
	Filter   ExportFilter `json:"filter"`
	Name     string       `json:"name,omitempty"`
	Names    string       `json:"names,omitempty"` // pattern of the paths in the zip
	Index    bool         `json:"index,omitempty"` // index.csv in the zip
	Priority int64        `json:"priority,omitempty"`
	Again    bool         `json:"again,omitempty"` // create a new export even if the folder and month have one
}

// CreateExport starts an export. For a folder and month that have an export, it returns that one
// with Joined set, unless Again is set.
func (c *Client) CreateExport(ctx context.Context, in NewExport) (Export, error) {
	return fetch[Export](ctx, c, &request{method: http.MethodPost, path: "/exports", input: in, withKey: true})
}

// CreateExportOf starts an export of the files in a list (JSON lines or CSV). Of in, only Name,
// Priority and Index are used.
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
	k := &request{method: http.MethodPost, path: "/exports/manifest", query: query, withKey: true, body: func() (*requestBody, error) {
		return &requestBody{size: int64(len(list)), src: bytes.NewReader(list)}, nil
	}}
	k.setHeader("Content-Type", "application/octet-stream")
	return fetch[Export](ctx, c, k)
}

// exportPath returns the API path of an export.
func exportPath(id string) string { return "/exports/" + url.PathEscape(id) }

// Export returns the current state of an export. It fails with CodeNotFound, also 30 days after its
// end.
func (c *Client) Export(ctx context.Context, id string) (Export, error) {
	return fetch[Export](ctx, c, &request{method: http.MethodGet, path: exportPath(id)})
}

// AllExports yields exports, newest first. If a request fails, the last pair is a zero value and
// the error.
func (c *Client) AllExports(ctx context.Context) iter.Seq2[Export, error] {
	return all(func(p Page) (List[Export], error) {
		return fetch[List[Export]](ctx, c, &request{method: http.MethodGet, path: "/exports", query: p.values()})
	})
}

// ExportSet yields the parts of a split export; set is Export.Set. If a request fails, the last
// pair is a zero value and the error.
func (c *Client) ExportSet(ctx context.Context, set string) iter.Seq2[Export, error] {
	return all(func(p Page) (List[Export], error) {
		query := p.values()
		query.Set("set", set)
		return fetch[List[Export]](ctx, c, &request{method: http.MethodGet, path: "/exports", query: query})
	})
}

// ExportFailure is an entry that the server could not collect.
type ExportFailure struct {
	// N is the number of the entry in the export, as ExportSource.N.
	N      int64     `json:"n"`
	ID     string    `json:"id"` // as given in the list
	Path   string    `json:"path"`
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
	At     time.Time `json:"at"`
}

// AllExportFailures yields the entries that could not be collected. If a request fails, the last
// pair is a zero value and the error.
func (c *Client) AllExportFailures(ctx context.Context, id string) iter.Seq2[ExportFailure, error] {
	return all(func(p Page) (List[ExportFailure], error) {
		return fetch[List[ExportFailure]](ctx, c, &request{method: http.MethodGet, path: exportPath(id) + "/errors", query: p.values()})
	})
}

// CancelExport ends an export and releases its space. A sealed one cannot be downloaded any more.
// It fails with CodeNotFound.
func (c *Client) CancelExport(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: exportPath(id)})
}

// ExportSource replaces the source of failed entry N by a path in the drive or a URL.
type ExportSource struct {
	N    int64  `json:"n"`
	Path string `json:"path,omitempty"`
	URL  string `json:"url,omitempty"`
}

// SupplementExport starts the next revision of an export and returns it: with all entries if
// complete is set, otherwise with the missing ones only. sources replace the sources of failed
// entries.
func (c *Client) SupplementExport(ctx context.Context, id string, complete bool, sources []ExportSource) (Export, error) {
	in := struct {
		Mode  string         `json:"mode"`
		Items []ExportSource `json:"items,omitempty"`
	}{"alone", sources}
	if complete {
		in.Mode = "complete"
	}
	return fetch[Export](ctx, c, &request{method: http.MethodPost, path: exportPath(id) + "/supplement", input: in, withKey: true})
}
