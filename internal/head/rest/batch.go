package rest

import (
	"context"
	"mime"
	"reflect"

	"golang.org/x/sync/semaphore"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/files"
)

const (
	// batchPath is a route path below prefix: /batch.
	batchPath = "/batch"
	batchType = "application/vnd.smartdrive.batch" // docs/formats/batch.md
	// ndjson is the media type of JSON lines.
	ndjson = "application/x-ndjson"

	maxBatch = 64 * drive.MiB // bytes of a request, item lines and file bytes together
)

// batches serves requests that change or download many small files at once.
type batches struct {
	batches         *batch.Batches
	files           *files.Files
	readAheadBudget *semaphore.Weighted // memory of all requests for files read ahead
}

// readAheadMemory bounds the bytes of files read ahead, over all requests.
const readAheadMemory = 8 << 20

// routes returns the declarations of the routes that batches serves. It registers nothing.
func (b batches) routes() []route {
	act := withRawBody(b.do)
	act.mediaType = batchType
	return append(b.contentRoutes(), route{
		id: "runBatch", method: "POST", path: batchPath, access: write, action: act, idempotent: true,
		summary: "Make folders, store small files, move, trash, and link content by its digest: up to 1,000 items and 64 MiB in one request, whose format docs/formats/batch.md describes. " +
			"Each item succeeds or fails alone, in order, and its answer is one line. Under an Idempotency-Key a batch that broke off goes on: the items that were done are answered and not done again, and may be left out.",
		outcomes: []outcome{{status: 200, body: reflect.TypeFor[batchLine](), jsonLines: true, description: "a line for each item as it is done, and one at the end"}},
		errors: []drive.Kind{
			drive.TooLarge, drive.MediaType, drive.TooSlow, drive.InProgress, drive.KeyReused,
		},
	})
}

// do executes a batch of changes, and sends the answer to each item as soon as it is done; the
// reply that it returns is always empty. It returns an error, to be answered, if the request is
// refused or the batch fails before the first answer. A later failure becomes the last line of the
// stream.
func (b batches) do(ctx context.Context, c *call) (reply, error) {
	if err := checkBatchHeaders(c); err != nil {
		return reply{}, err
	}
	from := newFrames(server.RequestBody(c.r), func(in *batchItem) (batch.Item, error) { return b.item(ctx, c, in) })
	done, err := c.startResponseUntil(ctx, maxUnread+1, from.Stop) // closing the source also ends a wait for a slow sender, so the memory is returned
	if err != nil {
		return reply{}, err
	}
	defer done()
	server.Duplex(c.w)
	out := newAnswerWriter(c)
	defer out.close()
	err = b.batches.Run(ctx, c.who, c.request(), from, out.addAnswers)
	return reply{}, out.end(err)
}

// checkBatchHeaders refuses a request that is no batch, is too large or is compressed, before its
// body is read. It returns drive.MediaType or drive.TooLarge.
func checkBatchHeaders(c *call) error {
	sent := c.r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(sent)
	switch {
	case err != nil || media != batchType:
		return drive.Wrap(err, drive.MediaType, "field", "Content-Type", "sent", clip(sent), "expected", batchType)
	case c.r.ContentLength > int64(maxBatch):
		return drive.Fail(drive.TooLarge, "field", "body", "limit", maxBatch, "sent", c.r.ContentLength)
	}
	return server.RefuseEncoding(c.r)
}

// batchItem is the decoded line of an item.
type batchItem struct {
	N           *int64        `json:"n,omitempty"`
	Op          string        `json:"op"`
	Path        pathField     `json:"path,omitempty"`
	Size        *int64        `json:"size,omitempty"`
	Parents     bool          `json:"parents,omitempty"`
	Conflict    conflictField `json:"conflict,omitempty"`
	Digests     digest.Set    `json:"digests,omitempty"`
	MTime       *drive.Time   `json:"mtime,omitempty"`
	Mime        mimeField     `json:"mime,omitempty"`
	IfMatch     string        `json:"if_match,omitempty"`
	IfNoneMatch string        `json:"if_none_match,omitempty"`
	ID          string        `json:"id,omitempty"`
	To          pathField     `json:"to,omitempty"`
	Parent      string        `json:"parent,omitempty"`
	Name        nameField     `json:"name,omitempty"`
	Rev         int64         `json:"rev,omitempty"`
}

// item converts a decoded line to an item. Its error fails this item only, not the batch.
func (b batches) item(ctx context.Context, c *call, in *batchItem) (batch.Item, error) {
	item := batch.Item{Op: batch.Op(in.Op)}
	if err := in.validate(); err != nil {
		return item, err
	}
	switch item.Op {
	case batch.Put, batch.Claim:
		return b.file(in, item)
	case batch.Folder:
		parent, name, ok := in.Path.Path.Split()
		if !ok {
			return item, drive.Fail(drive.BadName, "field", "path", "reason", "root")
		}
		item.Folder = files.Mkdir{Path: parent, Name: name, Parents: in.Parents, Conflict: drive.Conflict(in.Conflict)}
		return item, nil
	case batch.Move, batch.Trash:
		return b.node(ctx, c, in, item)
	}
	return item, drive.BadField("op", drive.NotAllowed, "allowed", batch.Ops(), "sent", clip(in.Op))
}

// validate checks that the members of a line fit its operation and each other. It returns
// drive.BadRequest for the first fault, else nil.
func (in *batchItem) validate() error {
	op := batch.Op(in.Op)
	file, node := op == batch.Put || op == batch.Claim, op == batch.Move || op == batch.Trash
	replaces := drive.Conflict(in.Conflict) == drive.ConflictReplace
	switch {
	case in.Path.Place != "" || in.To.Place != "":
		return drive.BadField("path", drive.NotAllowed, "expected", "a path in your own drive")
	case in.Path.Path == nil && !node:
		return drive.BadField("path", drive.Required)
	case in.Size == nil && file:
		return drive.BadField("size", drive.Required)
	case node && (in.Path.Path == nil) == (in.ID == ""):
		return drive.BadField("path", drive.NotTogether, "with", "id")
	case in.To.Path != nil && (in.Parent != "" || in.Name != ""):
		return drive.BadField("to", drive.NotTogether, "with", "parent")
	case in.To.Path != nil && len(in.To.Path) == 0:
		return drive.Fail(drive.BadName, "field", "to", "reason", "root")
	case replaces && op == batch.Folder:
		return drive.BadField("conflict", drive.NotAllowed, "allowed", []drive.Conflict{drive.ConflictFail, drive.ConflictRename}, "sent", drive.ConflictReplace)
	case op == batch.Claim && len(in.Digests) == 0:
		return drive.BadField("digests", drive.Required)
	case in.Size != nil && *in.Size < 0:
		return drive.BadField("size", drive.OutOfRange, "min", 0, "sent", *in.Size)
	}
	return nil
}

// file fills in the file of a put or claim, with the condition that if_match and if_none_match set.
// It fails with drive.BadRequest for malformed tags.
func (b batches) file(in *batchItem, item batch.Item) (batch.Item, error) {
	p := &item.File
	p.Path, p.Size, p.Parents, p.Conflict = in.Path.Path, drive.ByteSize(*in.Size), in.Parents, drive.Conflict(in.Conflict)
	p.Digests, p.MTime, p.Mime = in.Digests, timeOf(in.MTime), string(in.Mime)
	must, err := parseTags("if_match", in.IfMatch)
	if err != nil {
		return item, err
	}
	mustNot, err := parseTags("if_none_match", in.IfNoneMatch)
	if err != nil {
		return item, err
	}
	if !must.absent() || !mustNot.absent() {
		item.Condition = func(ctx context.Context, q sqldb.Querier, there *tree.Node) error {
			if there == nil {
				return failUnless(must.absent())
			}
			return uploads{files: b.files}.checkCondition(ctx, q, must, mustNot, *there)
		}
	}
	return item, nil
}

// node fills in the existing node that a move or trash refers to, and the change to it. It fails
// with drive.BadRequest for a malformed id.
func (b batches) node(ctx context.Context, c *call, in *batchItem, item batch.Item) (batch.Item, error) {
	item.Path, item.TargetPath, item.Rev = in.Path.Path, in.To.Path, in.Rev
	var err error
	if in.ID != "" {
		item.Node, err = b.files.ParseNode(ctx, c.who, in.ID)
	}
	if err == nil && in.Parent != "" {
		item.Change.Parent, err = b.files.ParseNode(ctx, c.who, in.Parent)
	}
	item.Change.Name, item.Change.MTime, item.Change.Conflict, item.Change.Expect.Rev = drive.Name(in.Name), timeOf(in.MTime), drive.Conflict(in.Conflict), in.Rev
	return item, err
}
