package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// ExportJob writes a zip into the drive or the bucket.
type ExportJob struct {
	ID     string `json:"id"`
	Export string `json:"export"`
	Folder string `json:"folder"` // empty: it goes into the bucket
	Object string `json:"object"` // its name there
	Name   string `json:"name"`
	State  string `json:"state"` // pending, running, done, failed
	Sent   int64  `json:"sent"`
	Node   string `json:"node"` // of a done one in the drive
	Error  string `json:"error"`
}

// Ended reports whether nothing more will come of it.
func (j ExportJob) Ended() bool { return j.State == "done" || j.State == "failed" }

// SaveExport has a sealed zip written into a folder of the drive, under the zip's own name if name
// is empty.
func (c *Client) SaveExport(ctx context.Context, id, folder, name string) (ExportJob, error) {
	in := struct {
		Folder string `json:"folder"`
		Name   string `json:"name,omitempty"`
	}{folder, name}
	return fetch[ExportJob](ctx, c, &call{method: http.MethodPost, path: exportPath(id) + "/files", in: in})
}

// PublishExport has a sealed zip written into the server's bucket for exports. Again returns the
// same job.
func (c *Client) PublishExport(ctx context.Context, id string) (ExportJob, error) {
	in := map[string]bool{"bucket": true}
	return fetch[ExportJob](ctx, c, &call{method: http.MethodPost, path: exportPath(id) + "/files", in: in})
}

// AllExportJobs lists those of an export, the newest first.
func (c *Client) AllExportJobs(ctx context.Context, id string) iter.Seq2[ExportJob, error] {
	return all(func(p Page) (List[ExportJob], error) {
		return fetch[List[ExportJob]](ctx, c, &call{method: http.MethodGet, path: exportPath(id) + "/files", query: p.values()})
	})
}

// ExportSchedule has a folder exported each month.
type ExportSchedule struct {
	ID       string       `json:"id,omitempty"`
	Folder   string       `json:"folder"`
	Name     string       `json:"name,omitempty"`
	Filter   ExportFilter `json:"filter"` // without a month
	Zone     string       `json:"zone,omitempty"`
	Priority int64        `json:"priority,omitempty"`
	Bucket   bool         `json:"bucket,omitempty"` // each zip goes into the bucket of the server
	Month    string       `json:"month,omitempty"`  // the one that is exported next
	DueAt    time.Time    `json:"due_at,omitzero"`  // when that is
	Names    string       `json:"names,omitempty"`  // pattern of the paths in the zips
	Index    bool         `json:"index,omitempty"`  // index.csv in each zip
	// Skipped is the last month of which there is none; nil: there was no such month.
	Skipped *SkippedMonth `json:"skipped,omitempty"`
}

// SkippedMonth is a month that could not be exported.
type SkippedMonth struct {
	Month  string `json:"month"`
	Reason string `json:"reason"` // not-found, state, too-large, bad-request
}

// CreateExportSchedule makes one.
func (c *Client) CreateExportSchedule(ctx context.Context, s ExportSchedule) (ExportSchedule, error) {
	return fetch[ExportSchedule](ctx, c, &call{method: http.MethodPost, path: "/export-schedules", in: s})
}

// AllExportSchedules lists them.
func (c *Client) AllExportSchedules(ctx context.Context) iter.Seq2[ExportSchedule, error] {
	return all(func(p Page) (List[ExportSchedule], error) {
		return fetch[List[ExportSchedule]](ctx, c, &call{method: http.MethodGet, path: "/export-schedules", query: p.values()})
	})
}

// DeleteExportSchedule ends one; what it has made stays.
func (c *Client) DeleteExportSchedule(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/export-schedules/" + url.PathEscape(id)})
}
