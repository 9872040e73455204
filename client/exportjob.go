package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// ExportJob writes an export's zip into the drive or the export bucket.
type ExportJob struct {
	ID     string `json:"id"`
	Export string `json:"export"`
	Folder string `json:"folder"` // target folder; empty: the bucket
	Object string `json:"object"` // object name in the bucket
	Name   string `json:"name"`
	State  string `json:"state"` // pending, running, done, failed
	Sent   int64  `json:"sent"`
	Node   string `json:"node"` // id of the written file, once done
	Error  string `json:"error"`
}

// Ended reports whether the job is done or failed, so that polling can stop.
func (j ExportJob) Ended() bool { return j.State == "done" || j.State == "failed" }

// SaveExport starts writing a sealed zip into a folder of the drive. An empty name means the zip's
// own name.
func (c *Client) SaveExport(ctx context.Context, id, folder, name string) (ExportJob, error) {
	in := struct {
		Folder string `json:"folder"`
		Name   string `json:"name,omitempty"`
	}{folder, name}
	return fetch[ExportJob](ctx, c, &request{method: http.MethodPost, path: exportPath(id) + "/files", input: in})
}

// PublishExport starts writing a sealed zip into the server's export bucket. A repeated call
// returns the same job.
func (c *Client) PublishExport(ctx context.Context, id string) (ExportJob, error) {
	in := map[string]bool{"bucket": true}
	return fetch[ExportJob](ctx, c, &request{method: http.MethodPost, path: exportPath(id) + "/files", input: in})
}

// AllExportJobs yields the jobs of an export, newest first. If a request fails, the last pair is a
// zero value and the error.
func (c *Client) AllExportJobs(ctx context.Context, id string) iter.Seq2[ExportJob, error] {
	return all(func(p Page) (List[ExportJob], error) {
		return fetch[List[ExportJob]](ctx, c, &request{method: http.MethodGet, path: exportPath(id) + "/files", query: p.values()})
	})
}

// ExportSchedule exports a folder or a list every month: Folder or List is set.
type ExportSchedule struct {
	ID       string       `json:"id,omitempty"`
	Folder   string       `json:"folder,omitempty"`
	List     string       `json:"list,omitempty"` // id of a file with a list, which is read each month
	Name     string       `json:"name,omitempty"`
	Filter   ExportFilter `json:"filter"` // of the folder; without a month and days
	Zone     string       `json:"zone,omitempty"`
	Priority int64        `json:"priority,omitempty"`
	Bucket   bool         `json:"bucket,omitempty"` // write each zip into the server's export bucket
	Month    string       `json:"month,omitempty"`  // the month exported next
	DueAt    time.Time    `json:"due_at,omitzero"`  // time of the next export
	Names    string       `json:"names,omitempty"`  // pattern of the paths in the zip
	Index    bool         `json:"index,omitempty"`  // add index.csv to each zip
	// Skipped is the last month that could not be exported; nil: none.
	Skipped *SkippedMonth `json:"skipped,omitempty"`
}

// SkippedMonth is a month that a schedule could not export.
type SkippedMonth struct {
	Month  string `json:"month"`
	Reason string `json:"reason"` // not-found, state, too-large, bad-request
}

// CreateExportSchedule creates a monthly export schedule. It has no idempotency key: a retry after
// a lost reply may create a second one.
func (c *Client) CreateExportSchedule(ctx context.Context, s ExportSchedule) (ExportSchedule, error) {
	return fetch[ExportSchedule](ctx, c, &request{method: http.MethodPost, path: "/export-schedules", input: s})
}

// AllExportSchedules yields the user's export schedules. If a request fails, the last pair is a
// zero value and the error.
func (c *Client) AllExportSchedules(ctx context.Context) iter.Seq2[ExportSchedule, error] {
	return all(func(p Page) (List[ExportSchedule], error) {
		return fetch[List[ExportSchedule]](ctx, c, &request{method: http.MethodGet, path: "/export-schedules", query: p.values()})
	})
}

// DeleteExportSchedule deletes a schedule. Its exports stay. It fails with CodeNotFound.
func (c *Client) DeleteExportSchedule(ctx context.Context, id string) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: "/export-schedules/" + url.PathEscape(id)})
}
