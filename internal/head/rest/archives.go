package rest

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
)

// archivesPath is a route path below prefix: /archives.
const archivesPath = "/archives"

// maxArchives bounds the zips that one user downloads at a time. Laying out a zip takes one of few
// slots of the exports.
const maxArchives = 8

// archives serves zips of selected files and folders, which are computed while they are sent.
type archives struct {
	exports *export.Exports
	files   *files.Files
	sending *server.Limiter[drive.UserID]
}

// routes returns the declarations of the routes that archives serves. It registers nothing.
func (a archives) routes() []route {
	zipHeaders := []string{"Range", "If-Range", "If-None-Match", "If-Match"}
	cannot := []drive.Kind{drive.NotFound, drive.WrongState, drive.TooLarge, drive.Rate, drive.Unavailable}
	sends := append([]drive.Kind{drive.Precondition, drive.Range}, cannot...)
	return []route{
		{
			id: "createArchive", method: "POST", path: archivesPath, access: read, action: withJSON(a.create), idempotent: true, createdPath: archivesPath,
			summary:  "Name files and folders that are to be downloaded as one zip. It takes no place of an export: any number can be made, and each is there for a day unless 100 newer ones are.",
			outcomes: []outcome{jsonOutcome[export.Archive](201, "what the zip will be; Location is where it is")}, errors: append(cannot, drive.BadName),
		}, {
			id: "downloadArchive", method: "GET", path: archivesPath + "/{id}", access: read, action: byID(a.get), header: zipHeaders,
			summary:  "Download the zip of an archive. It is computed while it is sent, of what the files are now. Its ETag changes with them: a download goes on with Range and If-Range, and once something has changed it begins again.",
			outcomes: zipOutcomes(),
			errors:   sends,
		}, {
			id: "downloadFolder", method: "GET", path: nodesPath + "/{id}/archive", access: read, action: byNode(a.files, a.getFolder), header: zipHeaders,
			summary:  "Download a folder as a zip that is computed while it is sent. `root` works as an id. It goes on with Range and If-Range.",
			outcomes: zipOutcomes(),
			errors:   sends,
		},
	}
}

// archiveBody is the JSON request body of POST /archives.
type archiveBody struct {
	Nodes  []string `json:"nodes,omitempty" doc:"ids of up to 20,000 files and folders"`
	Folder string   `json:"folder,omitempty" doc:"or the id of one folder, or root; the directory in the zip has its name"`
	Name   string   `json:"name,omitempty" doc:"name of the directory in the zip"`
}

// create serves POST /archives. It replies 201 with export.Archive. Beyond the errors common to all
// routes it fails with drive.NotFound, drive.WrongState, drive.TooLarge, drive.Rate,
// drive.Unavailable or drive.BadName. Only the selection is stored; the zip is computed at each
// download.
func (a archives) create(ctx context.Context, c *call, in *archiveBody) (reply, error) {
	wish := export.Request{Name: in.Name}
	if len(in.Nodes) > export.MaxSelected {
		return reply{}, drive.Fail(drive.TooLarge, "reason", "picked", "limit", export.MaxSelected, "sent", len(in.Nodes))
	}
	for i, text := range in.Nodes {
		if i > 0 && text == in.Nodes[i-1] { // skips repeats, because "root" costs a lookup
			continue
		}
		id, err := a.files.ParseNode(ctx, c.who, text)
		if err != nil {
			return reply{}, err
		}
		wish.Nodes = append(wish.Nodes, id)
	}
	if in.Folder != "" {
		id, err := a.files.ParseNode(ctx, c.who, in.Folder)
		if err != nil {
			return reply{}, err
		}
		wish.Folder = id
	}
	release, err := a.sending.Acquire(c.limitKey())
	if err != nil {
		return reply{}, err
	}
	defer release()
	return makeOnce(ctx, c, unchanged, func(keep storeResponse[export.Archive]) (export.Archive, error) {
		return a.exports.CreateArchive(ctx, c.who, c.reader(), wish, keep)
	})
}

// get serves GET /archives/{id}. Beyond the errors common to all routes it fails with
// drive.Precondition, drive.Range, drive.NotFound, drive.WrongState, drive.TooLarge, drive.Rate or
// drive.Unavailable. Without If-Range, a Range is ignored if the zip has changed since the archive
// was created.
func (a archives) get(ctx context.Context, c *call, id drive.ArchiveID) (reply, error) {
	return a.send(ctx, c, func() (export.Download, error) {
		d, same, err := a.exports.OpenArchive(ctx, c.who, c.reader(), id)
		if !same && c.r.Header.Get("If-Range") == "" {
			// Without If-Range the client does not say which zip its first bytes came from, and
			// this zip differs (RFC 9110 §14.2). So the whole zip is sent.
			c.r = c.r.Clone(ctx)
			c.r.Header.Del("Range")
		}
		return d, err
	})
}

// getFolder serves GET /nodes/{id}/archive. Beyond the errors common to all routes it fails with
// drive.Precondition, drive.Range, drive.NotFound, drive.WrongState, drive.TooLarge, drive.Rate or
// drive.Unavailable.
func (a archives) getFolder(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	return a.send(ctx, c, func() (export.Download, error) {
		return a.exports.OpenDirect(ctx, c.who, c.reader(), export.Request{Folder: id})
	})
}

// send serves a zip that open lays out. It fails with drive.Rate if the user downloads maxArchives
// zips already.
func (a archives) send(ctx context.Context, c *call, open func() (export.Download, error)) (reply, error) {
	release, err := a.sending.Acquire(c.limitKey())
	if err != nil {
		return reply{}, err
	}
	defer release()
	d, err := open()
	if err != nil {
		return reply{}, err
	}
	defer d.Close()
	return sendZip(ctx, c, d)
}
