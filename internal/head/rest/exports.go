package rest

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"strconv"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// exportsPath is a route path below prefix: /exports.
const exportsPath = "/exports"

// exports serves the routes for zips that are assembled in the background and kept for a limited
// time.
type exports struct {
	exports *export.Exports
	files   *files.Files
}

// routes returns the declarations of the routes that exports serves. It registers nothing.
func (e exports) routes() []route {
	one := exportsPath + "/{id}"
	makes := []drive.Kind{drive.Forbidden, drive.NotFound, drive.WrongState, drive.TooLarge, drive.TooManyOpen, drive.Quota}
	return []route{
		{
			id: "createExport", method: "POST", path: exportsPath, access: write, action: withJSON(e.create), idempotent: true, createdPath: exportsPath,
			summary:  "Ask for a zip of files, or of a folder. What belongs into it is decided now; it is collected in the background. A second request for the same month of a folder, with the same filter and names, gets the export that there is, with `joined`, until that has ended; `again` makes another one.",
			outcomes: []outcome{jsonOutcome[export.View](201, "the batch, `pending`")}, errors: makes,
		}, {
			id: "createExportFromManifest", method: "POST", path: exportsPath + "/manifest", access: write, action: withRawBody(e.createOf), idempotent: true, createdPath: exportsPath,
			query:    []param{{name: "name", doc: "of the directory in the zip; `export` if absent"}, priorityParam, indexParam},
			summary:  "Ask for a zip of a list, as JSON lines or as CSV with a header line. A line has `path` (in the drive), `url` (of an allowed host) or `node`, and perhaps `id` (the caller's own) and `name` (in the zip, with slashes between folders).",
			outcomes: []outcome{jsonOutcome[export.View](201, "the batch, `pending`")}, errors: append(makes, drive.BadName),
		}, {
			id: "listExports", method: "GET", path: exportsPath, access: read, action: withoutBody(e.list), query: []param{limitParam, cursor, setParam},
			summary:  "List the batches, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[export.View]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "getExport", method: "GET", path: one, access: read, action: byID(e.get),
			summary:  "Show how far a batch is; for 30 days after its end.",
			outcomes: []outcome{jsonOutcome[export.View](200, "the batch")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "listExportErrors", method: "GET", path: one + "/errors", access: read, action: byID(e.errors), query: []param{limitParam, cursor},
			summary:  "List the entries that could not be collected, as err.txt in the zip has them.",
			outcomes: []outcome{jsonOutcome[api.Page[export.Failure]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "deleteExport", method: "DELETE", path: one, access: write, action: byID(e.cancel),
			summary:  "End a batch and give back what it holds. A sealed one cannot be downloaded any more.",
			outcomes: []outcome{emptyOutcome(204, "it is over")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "createExportSupplement", method: "POST", path: one + "/supplement", access: write, action: byIDWithJSON(e.supplement), bodyOptional: true, idempotent: true, createdPath: exportsPath,
			summary:  "Ask for the next revision of a sealed batch: its failures are tried again, from other sources where `items` names some.",
			outcomes: []outcome{jsonOutcome[export.View](201, "the batch, `pending`")},
			errors:   append(makes, drive.BadName),
		}, {
			id: "downloadExport", method: "GET", path: one + "/content", access: read, action: byID(e.content),
			query:    []param{{name: "so_far", syntax: boolean, doc: "of a batch that is not sealed yet: a zip of what it has collected by now; err.txt names the rest as `pending`"}},
			header:   []string{"Range", "If-Range", "If-None-Match", "If-Match"},
			summary:  "Download the zip. Its bytes are always the same, so that a download can go on where it broke off; one so far changes, with its ETag, when more is collected.",
			outcomes: zipOutcomes(),
			errors:   []drive.Kind{drive.NotFound, drive.WrongState, drive.Gone, drive.Precondition, drive.Range},
		}, {
			id: "createExportLink", method: "POST", path: one + "/links", access: write, action: byIDWithJSON(e.createLink),
			summary:  "Make a signed link to the zip. It is void once it has expired, the batch or the login or token that made it has ended, or the password changed.",
			outcomes: []outcome{jsonOutcome[api.Link](201, "the link; whoever has it may download the zip")},
			// A second link does no harm, so it needs no idempotency key.
			errors: []drive.Kind{drive.NotFound, drive.WrongState, drive.Gone},
		}, {
			id: "downloadLinkedExport", method: "GET", path: exportLinksPath, access: open, action: withoutBody(e.openLink),
			query:    []param{{name: "token", required: true, doc: "what the link's maker was given; in the query, which no log shows"}},
			header:   []string{"Range", "If-Range", "If-None-Match", "If-Match"},
			summary:  "Download the zip of a signed link.",
			outcomes: zipOutcomes(),
			errors:   []drive.Kind{drive.NotFound, drive.WrongState, drive.Gone, drive.Precondition, drive.Range},
		}, {
			id: "createExportFile", method: "POST", path: one + "/files", access: write, action: byIDWithJSON(e.materialise),
			summary:  "Write the zip, in the background, into a folder of the drive, as an upload that is charged like any; or into the bucket of `--export-bucket`, once, until the batch ends.",
			outcomes: []outcome{jsonOutcome[export.Job](201, "the job")},
			errors:   []drive.Kind{drive.NotFound, drive.WrongState, drive.Gone, drive.BadName, drive.Forbidden, drive.TooManyOpen, drive.Quota},
		}, {
			id: "listExportFiles", method: "GET", path: one + "/files", access: read, action: byID(e.jobs), query: []param{limitParam, cursor},
			summary:  "List the jobs that write the zip into the drive or the bucket, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[export.Job]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		},
	}
}

// exportLinksPath is a route path below prefix: /export-links.
const exportLinksPath = "/export-links"

// priorityParam declares the query parameter "priority".
var priorityParam = param{name: "priority", syntax: integer, min: export.MinPriority, max: export.MaxPriority, doc: "of the caller's exports the higher goes first; above 0 also before those of others: an administrator's word"}

// indexParam declares the query parameter "index".
var indexParam = param{name: "index", syntax: integer, min: 0, max: 1, doc: "1: a list of all entries, index.csv, is in the zip"}

// setParam declares the query parameter "set".
var setParam = param{name: "set", doc: "only the parts of this set, in their order: a list that is too long for one zip becomes several"}

// zipOutcomes returns the responses without an error that routes which send a zip declare.
func zipOutcomes() []outcome {
	return []outcome{
		{status: 200, bytes: true, description: "the zip"},
		{status: 206, bytes: true, description: "the ranges that were asked for"},
		emptyOutcome(304, "it is still what If-None-Match names"),
	}
}

// exportBody is the JSON request body of POST /exports.
type exportBody struct {
	Nodes    []string      `json:"nodes,omitempty" doc:"ids of files and folders"`
	Folder   string        `json:"folder,omitempty" doc:"or the id of one folder, or root; the directory in the zip has its name"`
	Filter   export.Filter `json:"filter,omitempty" doc:"selects files of the folders"`
	Name     string        `json:"name,omitempty" doc:"name of the directory in the zip"`
	Names    string        `json:"names,omitempty" doc:"pattern of the paths in the zip, such as {seller}/{date} {number}; docs/export.md lists the fields"`
	Index    bool          `json:"index,omitempty" doc:"true: the zip contains index.csv, a list of all entries"`
	Priority int64         `json:"priority,omitempty" minimum:"-100" maximum:"10" doc:"the caller's exports with a higher priority run first; above 0 (administrators only) also before exports of other users"`
	Again    bool          `json:"again,omitempty" doc:"true: creates another export of the folder's month if one exists"`
}

// create serves POST /exports. It replies 201 with export.View. Beyond the errors common to all
// routes it fails with drive.Forbidden, drive.NotFound, drive.WrongState, drive.TooLarge,
// drive.TooManyOpen or drive.Quota. The selection is fixed now; the zip is collected in the
// background.
func (e exports) create(ctx context.Context, c *call, in *exportBody) (reply, error) {
	wish := export.Request{Name: in.Name, Filter: in.Filter, Priority: in.Priority, Names: in.Names, Index: in.Index, Force: in.Again}
	for _, text := range in.Nodes {
		id, err := e.files.ParseNode(ctx, c.who, text)
		if err != nil {
			return reply{}, err
		}
		wish.Nodes = append(wish.Nodes, id)
	}
	if in.Folder != "" {
		id, err := e.files.ParseNode(ctx, c.who, in.Folder)
		if err != nil {
			return reply{}, err
		}
		wish.Folder = id
	}
	return makeOnce(ctx, c, unchanged, func(keep storeResponse[export.View]) (export.View, error) {
		return e.exports.Create(ctx, c.who, wish, keep)
	})
}

// createOf serves POST /exports/manifest. It replies 201 with export.View. Beyond the errors common
// to all routes it fails with drive.Forbidden, drive.NotFound, drive.WrongState, drive.TooLarge,
// drive.TooManyOpen, drive.Quota or drive.BadName.
func (e exports) createOf(ctx context.Context, c *call) (reply, error) {
	const maxManifest = int64(export.MaxManifest)
	if c.r.ContentLength > maxManifest {
		return reply{}, drive.Fail(drive.TooLarge, "limit", maxManifest, "sent", c.r.ContentLength)
	}
	if err := server.RefuseEncoding(c.r); err != nil {
		return reply{}, err
	}
	what := sha256.New() // hashed as the request that the idempotency key stands for; a hash does not fail
	what.Write([]byte(c.r.URL.RawQuery + "\n"))
	in := e.exports.LimitBody(server.RequestBody(c.r))
	defer in.Close()
	body := &io.LimitedReader{R: in, N: maxManifest + 1}
	items, err := export.ReadManifest(io.TeeReader(body, what), e.exports.MaxList()) // reads all of the body unless it fails
	if body.N == 0 {
		return reply{}, drive.Fail(drive.TooLarge, "limit", maxManifest, "sent", maxManifest+1)
	}
	if err := in.Err(); err != nil {
		return reply{}, err
	}
	if err != nil {
		return reply{}, err
	}
	c.body = what.Sum(nil)
	wish := export.Request{Name: c.query.Get("name"), Manifest: items, Priority: int64(c.number(priorityParam)), Index: c.number(indexParam) == 1}
	return makeOnce(ctx, c, unchanged, func(keep storeResponse[export.View]) (export.View, error) {
		return e.exports.Create(ctx, c.who, wish, keep)
	})
}

// list serves GET /exports. It replies 200 with api.Page[export.View]. Beyond the errors common
// to all routes it fails with drive.CursorInvalid.
func (e exports) list(ctx context.Context, c *call) (reply, error) {
	if text := c.query.Get(setParam.name); text != "" {
		return e.listSet(ctx, c, text)
	}
	return listPage(c, func(before drive.ExportID, limit int) ([]export.View, error) {
		return e.exports.List(ctx, c.who, before, limit)
	}, unchanged, func(v export.View) string { return v.ID.String() })
}

// listSet replies with the parts of the set whose id text is, in their order. It fails with
// drive.BadRequest for a malformed id.
func (e exports) listSet(ctx context.Context, c *call, text string) (reply, error) {
	set, err := drive.ParseID[drive.ExportID](text)
	if err != nil {
		return reply{}, drive.BadField(setParam.name, drive.Malformed, "expected", "an id")
	}
	all, err := e.exports.ListSet(ctx, c.who, set)
	if err != nil {
		return reply{}, err
	}
	return pageOf(c, all, func(v export.View) string { return v.ID.String() })
}

// get serves GET /exports/{id}. It replies 200 with export.View. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (e exports) get(ctx context.Context, c *call, id drive.ExportID) (reply, error) {
	return answer(e.exports.Get(ctx, c.who, id))
}

// errors serves GET /exports/{id}/errors. It replies 200 with api.Page[export.Failure]. Beyond
// the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (e exports) errors(ctx context.Context, c *call, id drive.ExportID) (reply, error) {
	var err error
	since := int64(0)
	if text := c.query.Get(cursor.name); text != "" {
		if since, err = strconv.ParseInt(text, 10, 64); err != nil {
			return reply{}, drive.Wrap(err, drive.CursorInvalid)
		}
	}
	failures, err := e.exports.Errors(ctx, c.who, id, since, c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	return ok(newPage(failures, c.limit(), func(f export.Failure) string { return strconv.FormatInt(f.N, 10) }))
}

// cancel serves DELETE /exports/{id}. It replies 204 without a body. Beyond the errors common to
// all routes it fails with drive.NotFound. It ends a pending, running or sealed export and releases
// its space.
func (e exports) cancel(ctx context.Context, c *call, id drive.ExportID) (reply, error) {
	return empty(e.exports.Cancel(ctx, c.who, id))
}

// supplementBody is the JSON request body of POST /exports/{id}/supplement.
type supplementBody struct {
	Mode  string     `json:"mode,omitempty" enum:"alone,complete" default:"alone" doc:"contents of the zip: only supplied entries, or everything"`
	Items []supplied `json:"items,omitempty" doc:"replacement sources; failed entries without one are retried as they were"`
}

// supplied is one replacement source in the body of a supplement.
type supplied struct {
	N    int64  `json:"n" doc:"number of the failed entry"`
	Node string `json:"node,omitempty" doc:"id of a file"`
	Path string `json:"path,omitempty" doc:"or path of the file"`
	URL  string `json:"url,omitempty" doc:"or URL of a document elsewhere"`
	Name string `json:"name,omitempty" doc:"path in the zip; absent: unchanged"`
}

// supplement serves POST /exports/{id}/supplement. It replies 201 with export.View. Beyond the
// errors common to all routes it fails with drive.Forbidden, drive.NotFound, drive.WrongState,
// drive.TooLarge, drive.TooManyOpen, drive.Quota or drive.BadName.
func (e exports) supplement(ctx context.Context, c *call, id drive.ExportID, in *supplementBody) (reply, error) {
	more := export.SupplementRequest{Mode: export.Mode(in.Mode)}
	for _, s := range in.Items {
		more.Items = append(more.Items, export.ReplacedSource{N: s.N, Item: export.Item{Node: s.Node, Path: s.Path, URL: s.URL, Name: s.Name}})
	}
	return makeOnce(ctx, c, unchanged, func(keep storeResponse[export.View]) (export.View, error) {
		return e.exports.Supplement(ctx, c.who, id, more, keep)
	})
}

// content serves GET /exports/{id}/content. Beyond the errors common to all routes it fails with
// drive.NotFound, drive.WrongState, drive.Gone, drive.Precondition or drive.Range.
func (e exports) content(ctx context.Context, c *call, id drive.ExportID) (reply, error) {
	open := e.exports.Open
	if c.flag("so_far") {
		open = func(ctx context.Context, who drive.Who, id drive.ExportID) (export.Download, error) {
			return e.exports.OpenSoFar(ctx, who, c.reader(), id)
		}
	}
	d, err := open(ctx, c.who, id)
	if err != nil {
		return reply{}, err
	}
	defer d.Close()
	return sendZip(ctx, c, d)
}

// sendZip sends a zip with ranges and conditions, and records one download if the response begins
// at the first byte. The caller closes d. The error is always nil, because failures are sent as
// problems.
func sendZip(ctx context.Context, c *call, d export.Download) (reply, error) {
	if _, fromStart := wouldSend(ctx, c, d.ETag, "application/zip", int64(d.Size), time.Time{}); fromStart {
		who := c.who
		if who.User.IsZero() {
			who = drive.Who{Account: d.Account, Head: drive.LinkHead, Address: c.client().String()}
		}
		c.downloads.Zip(who, d.Filename(), d.Selected)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", disposition(d.Filename(), false))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private, no-cache")
	d.Serve(c.w, c.r, c.reader(), func(err error) { problem.Write(c.w, c.r, err) })
	return reply{}, nil
}

// exportLinkBody is the JSON request body of POST /exports/{id}/links.
type exportLinkBody struct {
	ExpiresIn int64 `json:"expires_in" minimum:"1" maximum:"604800" doc:"lifetime in seconds; the link ends with the export at the latest"`
}

// createLink serves POST /exports/{id}/links. It replies 201 with api.Link. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.WrongState or drive.Gone.
func (e exports) createLink(ctx context.Context, c *call, id drive.ExportID, in *exportLinkBody) (reply, error) {
	life, err := seconds("expires_in", in.ExpiresIn, 1, int64(export.MaxLinkLife.Seconds()))
	if err != nil {
		return reply{}, err
	}
	link, err := e.exports.CreateLink(ctx, c.who, id, life)
	if err != nil {
		return reply{}, err
	}
	return created(api.Link{URL: c.baseURL() + prefix + exportLinksPath + "?token=" + link.Token, ExpiresAt: showTime(link.ExpiresAt)})
}

// openLink serves GET /export-links. Beyond the errors common to all routes it fails with
// drive.NotFound, drive.WrongState, drive.Gone, drive.Precondition or drive.Range.
func (e exports) openLink(ctx context.Context, c *call) (reply, error) {
	d, err := e.exports.OpenLink(ctx, c.query.Get("token"))
	if err != nil {
		return reply{}, err
	}
	return sendZip(ctx, c, d)
}

// exportFileBody is the JSON request body of POST /exports/{id}/files.
type exportFileBody struct {
	Folder string    `json:"folder,omitempty" doc:"id of a folder, or root"`
	Name   nameField `json:"name,omitempty" doc:"name of the file in the folder; absent: name of the zip"`
	Bucket bool      `json:"bucket,omitempty" doc:"instead of a folder: true: saves to the bucket, if one is configured"`
}

// materialise serves POST /exports/{id}/files. It replies 201 with export.Job. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.WrongState, drive.Gone, drive.BadName,
// drive.Forbidden, drive.TooManyOpen or drive.Quota. A background job writes the zip into a folder
// or the bucket; the reply is 201 with the job.
func (e exports) materialise(ctx context.Context, c *call, id drive.ExportID, in *exportFileBody) (reply, error) {
	if in.Bucket {
		if in.Folder != "" || in.Name != "" {
			return reply{}, drive.BadField("bucket", drive.NotTogether, "with", "folder, name")
		}
		job, err := e.exports.MaterialiseInBucket(ctx, c.who, id)
		return reply{status: http.StatusCreated, body: job}, err
	}
	if in.Folder == "" {
		return reply{}, drive.BadField("folder", drive.Required)
	}
	folder, err := e.files.ParseNode(ctx, c.who, in.Folder)
	if err != nil {
		return reply{}, err
	}
	job, err := e.exports.Materialise(ctx, c.who, id, folder, drive.Name(in.Name))
	return reply{status: http.StatusCreated, body: job}, err
}

// jobs serves GET /exports/{id}/files. It replies 200 with api.Page[export.Job]. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (e exports) jobs(ctx context.Context, c *call, id drive.ExportID) (reply, error) {
	jobs, err := e.exports.Jobs(ctx, c.who, id)
	if err != nil {
		return reply{}, err
	}
	return pageOf(c, jobs, func(j export.Job) string { return j.ID.String() })
}
