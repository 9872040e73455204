package rest

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
)

// fileRoutes returns the declarations of the file routes. It registers nothing.
func (u uploads) fileRoutes() []route {
	byPath := route{
		id: "uploadFile", method: "PUT", path: filesPath, access: write, senders: true, action: withRawBody(u.putFile), createdPath: nodesPath,
		query: []param{
			{name: "conflict", syntax: choice, choices: []string{"replace", "fail", "rename"}, doc: "what to do when the name is taken"},
			{name: "parents", syntax: boolean, doc: "make the folders that are missing"},
			{name: "space", doc: "where the path is: name or id of a space, or id of a shared folder; the caller's own drive if absent"},
		},
		header:   []string{"If-Match", "If-None-Match", "Repr-Digest", "Content-Digest", "X-Mtime", "Content-Type"},
		summary:  "Store a whole file, of known or unknown length. The path is that of the file without the first slash, each name percent-encoded by itself. A body that breaks off leaves nothing.",
		outcomes: []outcome{jsonOutcome[api.Node](201, "a new file"), jsonOutcome[api.Node](200, "the file has a new version")},
		errors: []drive.Kind{
			drive.BadName, drive.NotFound, drive.Gone, drive.NameTaken, drive.VersionChanged, drive.Locked, drive.Precondition, drive.TooLarge, drive.MediaType, drive.TooSlow,
			drive.DigestMismatch, drive.InProgress, drive.TooManyOpen, drive.Quota, drive.DiskFull,
		},
	}
	byQuery := byPath
	byQuery.id, byQuery.path = "uploadFileByPath", filesQueryPath
	byQuery.query = append([]param{{name: "path", required: true, doc: "absolute path of the file"}}, byPath.query...)
	byQuery.summary = "Store a whole file as PUT /files/{path} does, for clients that escape the slashes of a path."
	return []route{byPath, byQuery}
}

// putFile serves PUT /files/{path...}. It replies 201 with api.Node or 200 with
// api.Node. Beyond the errors common to all routes it fails with drive.BadName,
// drive.NotFound, drive.Gone, drive.NameTaken, drive.VersionChanged, drive.Locked,
// drive.Precondition, drive.TooLarge, drive.MediaType, drive.TooSlow, drive.DigestMismatch,
// drive.InProgress, drive.TooManyOpen, drive.Quota or drive.DiskFull. The file becomes visible at
// the end of the body; a body that breaks off leaves nothing.
func (u uploads) putFile(ctx context.Context, c *call) (reply, error) {
	put, err := u.readPut(ctx, c)
	if err != nil {
		return reply{}, err
	}
	declared, err := digest.ParseContentDigest(c.joined("Content-Digest"))
	if err != nil {
		return reply{}, err
	}
	body := server.RequestBody(c.r)
	if len(declared) > 0 {
		body = &verified{body, digest.NewVerifier(declared)}
	}
	if c.sender != nil {
		return u.putSenderFile(ctx, c, put, body)
	}
	stored, err := u.sessions.PutWhole(ctx, c.who, put, body)
	if err != nil {
		return reply{}, err
	}
	view, err := u.showPut(ctx, c, put, stored)
	if err != nil {
		return reply{}, err
	}
	c.w.Header().Set("ETag", quoted(opaqueTag(view.Digests[string(digest.Blake3)])))
	if stored.Created {
		return created(showNode(view))
	}
	return ok(showNode(view))
}

// showPut renders the stored file. For a small file it reuses the path of the request. A large one
// is looked up again, because its folder may have been moved while its bytes arrived. It fails with
// drive.NotFound if the file was deleted meanwhile.
func (u uploads) showPut(ctx context.Context, c *call, put upload.PutFile, stored upload.Stored) (files.NodeView, error) {
	if put.Place != "" {
		return u.files.ViewFor(ctx, u.db, c.who, stored.Node)
	}
	if put.Size == blob.UnknownSize || put.Size > upload.MaxUncheckedSize {
		return u.files.View(ctx, u.db, stored.Node)
	}
	folder, _, _ := put.Path.Split()
	return u.files.ViewAt(ctx, u.db, stored.Node, folder, stored.Digests)
}

// readPut parses the path, query and headers of a PUT of a file. It fails with drive.BadName,
// drive.BadRequest, drive.MediaType or drive.Precondition.
func (u uploads) readPut(ctx context.Context, c *call) (upload.PutFile, error) {
	put := upload.PutFile{Size: drive.ByteSize(c.r.ContentLength), Conflict: drive.Conflict(c.query.Get("conflict")), Parents: c.flag("parents"), Place: c.query.Get(spaceParam.name)}
	if put.Size < 0 {
		put.Size = blob.UnknownSize
	}
	err := server.RefuseEncoding(c.r)
	if err == nil {
		put.Path, err = pathOf(c)
	}
	if err == nil {
		put.Digests, err = digest.ParseReprDigest(c.joined("Repr-Digest"))
	}
	if err == nil {
		put.MTime, err = parseMTime(c.r.Header)
	}
	if err == nil {
		put.Check, err = u.condition(ctx, c)
	}
	put.Mime = givenMime(c.r.Header.Get("Content-Type"))
	return put, err
}

// pathOf parses the file's path from the URL or its query. It splits the path of the URL before
// decoding, since names may contain an encoded slash. It fails with drive.BadName.
func pathOf(c *call) (drive.Path, error) {
	if c.route.path == filesQueryPath {
		path, err := drive.ParsePath(c.query.Get("path"))
		if err == nil && len(path) == 0 {
			return drive.ParseSegments([]string{""}) // the root is no file
		}
		return path, err
	}
	_, escaped, _ := strings.Cut(c.r.URL.EscapedPath(), prefix+"/files/")
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		name, err := url.PathUnescape(s)
		if err != nil {
			return nil, drive.Wrap(err, drive.BadName, "reason", "escape")
		}
		segments[i] = name
	}
	return drive.ParseSegments(segments)
}

// Limits of X-Mtime in milliseconds: the years 1 to 9999, which RFC 3339 can express.
const (
	minMTime = -62_135_596_800_000
	maxMTime = 253_402_300_799_999
)

// parseMTime parses X-Mtime in Unix milliseconds; absent it is 0. It fails with drive.BadRequest.
func parseMTime(h http.Header) (drive.Time, error) {
	const name = "X-Mtime"
	lines := h.Values(name)
	if len(lines) == 0 {
		return 0, nil
	}
	ms, err := strconv.ParseInt(lines[0], 10, 64)
	switch {
	case err != nil || len(lines) > 1:
		return 0, drive.Wrap(err, drive.BadRequest, "field", name, "reason", string(drive.Malformed), "expected", "Unix milliseconds")
	case ms < minMTime || ms > maxMTime:
		return 0, drive.BadField(name, drive.OutOfRange, "min", int64(minMTime), "max", int64(maxMTime), "sent", ms)
	}
	return drive.TimeOf(time.UnixMilli(ms)), nil
}

// givenMime returns the media type of a file's Content-Type. It returns "" for invalid types and
// for those that clients send by default.
func givenMime(contentType string) string {
	media, _, _ := mime.ParseMediaType(contentType)
	if media == "application/octet-stream" || media == "application/x-www-form-urlencoded" {
		return ""
	}
	given, ok := parseMime(contentType)
	if !ok {
		return ""
	}
	return given
}

// condition returns the check of If-Match and If-None-Match (RFC 9110 §13.2.2), or nil if the
// request has neither. The check fails with drive.Precondition; its argument is nil if there is no
// such file.
func (u uploads) condition(ctx context.Context, c *call) (func(there *tree.Node) error, error) {
	must, err := c.tags("If-Match")
	if err != nil {
		return nil, err
	}
	mustNot, err := c.tags("If-None-Match")
	if err != nil || must.absent() && mustNot.absent() {
		return nil, err
	}
	return func(there *tree.Node) error {
		if there == nil {
			return failUnless(must.absent())
		}
		return u.checkCondition(ctx, u.db, must, mustNot, *there)
	}, nil
}

// checkCondition checks a condition against the current content of a file. It fails with
// drive.Precondition.
func (u uploads) checkCondition(ctx context.Context, q sqldb.Querier, must, mustNot tags, there tree.Node) error {
	view, err := u.files.View(ctx, q, there)
	if err != nil {
		return err
	}
	now := opaqueTag(view.Digests[string(digest.Blake3)])
	return failUnless((must.absent() || must.match(now)) && !mustNot.matchWeakly(now))
}

// failUnless returns drive.Precondition if holds is false, else nil.
func failUnless(holds bool) error {
	if !holds {
		return drive.Fail(drive.Precondition)
	}
	return nil
}

// verified checks the declared digests when the body ends. It returns the mismatch instead of
// io.EOF, so that the body is not taken for complete.
type verified struct {
	io.ReadCloser
	verifier *digest.Verifier
}

// Read passes the bytes to the verifier. At the end of the body it fails with drive.DigestMismatch
// if a declared digest does not match.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	_, _ = v.verifier.Write(p[:n]) // does not fail
	if err == io.EOF {
		if wrong := v.verifier.Verify(); wrong != nil {
			return n, wrong
		}
	}
	return n, err
}
