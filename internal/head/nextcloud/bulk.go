package nextcloud

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/upload"
)

// Many small files arrive in one request, each as a part (see related):
//
//	POST bulk
//	X-File-Path: /folder/file   as clients see it
//	X-File-Mtime: 1700000000    or X-OC-Mtime
//	X-File-MD5: ...             or OC-Checksum: verified before the file is there
//	If-Match: "..."             what the file replaces
//
// The response is a JSON object with a member for each path that was stored or refused. The client
// sends the other files again. Files in the caller's own drive are stored as a batch. Files
// elsewhere, and files that are too large for a batch, are stored one by one like a PUT.

// supportsBulk reports whether the client may use bulk uploads. Desktop clients before 3.9.1 cannot
// send an empty file this way, and fail with all files beside it (nextcloud/desktop#5871; decision
// 115).
func supportsBulk(userAgent string) bool {
	_, version, desktop := strings.Cut(userAgent, "mirall/")
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor) // unreadable numbers are 0
	return desktop && n == 2 && (major > 3 || major == 3 && minor >= 10)
}

// maxBulk bounds a request in bytes: as many files as a batch accepts, of 256 KiB each.
const maxBulk = 256 << 20

// bulkType is the media type of a bulk upload.
const bulkType = "multipart/related"

// bulk reads the files of one request as the source of a batch, which stores many small files in
// few transactions. It remembers the files in their order, for the answer.
type bulk struct {
	src   io.ReadCloser
	parts *related
	put   func(h http.Header, size int64) (item batch.Item, done bool) // converts a part to an item; done: the part was stored by itself
	sent  int64                                                        // bytes read so far
	err   error                                                        // set once nothing more can be read; io.EOF at a regular end

	files   []bulkFile // by number of the part
	answers []batch.Answer
	stored  []batch.Answer // results of files that were stored by themselves
}

// bulkFile is the path that a part of a bulk request is stored at.
type bulkFile struct {
	path   string // as sent by the client
	at     drive.Address
	tokens drive.Tokens // lock tokens that the part submits
}

var _ batch.Source = (*bulk)(nil)

// newBulk returns a batch source that reads the multipart body src. The caller must set put before
// the first Next. It does not close src; Stop does.
func newBulk(src io.ReadCloser, boundary string) *bulk {
	b := &bulk{src: src}
	b.parts = &related{in: bufio.NewReaderSize((*bulkBytes)(b), 64<<10), boundary: boundary}
	return b
}

// bulkBytes reads the request body and fails with drive.TooLarge after maxBulk bytes.
type bulkBytes bulk

// Read fails with drive.TooLarge once the body exceeds maxBulk bytes.
func (b *bulkBytes) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if b.sent += int64(n); b.sent > maxBulk {
		return 0, drive.Fail(drive.TooLarge, "field", "body", "limit", maxBulk, "sent", b.sent)
	}
	return n, err
}

// Next returns the next part that the batch stores. It calls put for each part; those that put
// stores itself are skipped. It fails with io.EOF after the last part, with drive.TooLarge beyond
// batch.MaxItems, or with the error of reading. Later calls return the same error.
func (b *bulk) Next() (batch.Item, error) {
	for b.err == nil {
		h, size, err := b.parts.next()
		if n := len(b.files); err == nil && n >= batch.MaxItems {
			err = drive.Fail(drive.TooLarge, "field", "body", "limit", batch.MaxItems, "sent", n+1)
		}
		if err != nil {
			b.err = err
			break
		}
		if item, done := b.put(h, size); !done {
			return item, nil
		}
	}
	return batch.Item{}, b.err
}

// Read reads the bytes of the current part up to its io.EOF. An error other than io.EOF ends the
// whole source.
func (b *bulk) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.parts.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// Err returns the error that ended the source; nil at the regular end.
func (b *bulk) Err() error {
	if errors.Is(b.err, io.EOF) {
		return nil
	}
	return b.err
}

// Stop closes the body, so that a waiting Read returns. It may be called from another goroutine.
func (b *bulk) Stop() { _ = b.src.Close() }

// addAnswers stores the answers of committed items for results. The batch calls it. It never fails.
func (b *bulk) addAnswers(answers []batch.Answer) error {
	b.answers = append(b.answers, answers...)
	return nil
}

// bulkRequest is a request that stores many files.
type bulkRequest struct {
	*call
	files *bulk
}

// bulk handles POST bulk: it stores the files of the body and replies with a JSON object of results
// by path. Before it reads, it fails with drive.MediaType or drive.TooLarge. If the body breaks
// off, the response has the status of that error and the results of the files stored so far; the
// client sends the missing ones again.
func (c *call) bulk(ctx context.Context) error {
	if c.r.Method != http.MethodPost {
		return c.methodNotAllowed(http.MethodPost)
	}
	leave, err := c.authenticate(true)
	if err != nil {
		return err
	}
	defer leave()
	sent := c.r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(sent)
	switch {
	case err != nil || media != bulkType || params["boundary"] == "":
		return drive.Wrap(err, drive.MediaType, "field", "Content-Type", "sent", server.Clip(sent), "expected", bulkType)
	case c.r.ContentLength > maxBulk:
		return drive.Fail(drive.TooLarge, "field", "body", "limit", maxBulk, "sent", c.r.ContentLength)
	}
	if err := server.RefuseEncoding(c.r); err != nil {
		return err
	}
	all := bulkRequest{c, newBulk(server.RequestBody(c.r), params["boundary"])}
	all.files.put = func(h http.Header, size int64) (batch.Item, bool) { return all.file(ctx, h, size) }
	broken := c.Batches.Run(ctx, c.who, idem.Request{}, all.files, all.files.addAnswers)
	results, err := all.results(ctx)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if broken != nil { // the client sends files again that the response does not mention
		status = problem.From(broken, problem.English, "").Status
		problem.Note(c.w, broken)
	}
	c.w.Header().Set("Cache-Control", "no-store")
	return c.sendJSON(status, results)
}

// file converts a part to an item of the batch and returns done: false. A part that a batch cannot
// store, because it is large or not for the caller's own drive, it stores itself; then it returns
// done: true without an item. A fault of the part is in the item's Err or in b.stored, so that the
// other parts are stored.
func (c bulkRequest) file(ctx context.Context, h http.Header, size int64) (item batch.Item, done bool) {
	b := c.files
	n := len(b.files)
	f := bulkFile{path: h.Get("X-File-Path")}
	put, err := c.put(ctx, &f, h)
	put.Size = drive.ByteSize(size)
	b.files = append(b.files, f)
	if err == nil {
		put.Digests, err = partDigests(h)
	}
	if err == nil && (f.at.Place != "" || put.Size > upload.MaxUnsyncedSize) {
		b.stored = append(b.stored, c.storeAlone(ctx, n, put, b))
		return batch.Item{}, true
	}
	return batch.Item{N: n, Op: batch.Put, Err: err, File: put, Tokens: f.tokens, Body: b}, false
}

// partDigests returns the digests that a part declares in OC-Checksum and X-File-MD5; empty if
// none. It fails with drive.BadRequest for a malformed digest, or if the two headers contradict.
func partDigests(h http.Header) (digest.Set, error) {
	sums, err := dav.DeclaredDigests(h)
	text := h.Get("X-File-MD5")
	if text == "" || err != nil {
		return sums, err
	}
	sum, err := hex.DecodeString(text)
	if other := sums[digest.MD5]; err != nil || len(sum) != digest.MD5.Size() || other != nil && !bytes.Equal(other, sum) {
		return nil, drive.Wrap(err, drive.BadRequest, "field", "X-File-MD5", "reason", string(drive.Malformed), "expected", "32 hex digits")
	}
	sums[digest.MD5] = sum
	return sums, nil
}

// put parses the header of a part and checks that its file may be stored. It stores nothing, and
// sets f.at and f.tokens. It fails with drive.BadRequest without X-File-Path or for a malformed
// time, and with the errors of Address and CheckPut.
func (c bulkRequest) put(ctx context.Context, f *bulkFile, h http.Header) (put upload.PutFile, err error) {
	if f.path == "" {
		return put, drive.BadField("X-File-Path", drive.Required)
	}
	view, u := c.view(ctx, "/"), &url.URL{Path: "/" + strings.TrimLeft(f.path, "/")}
	if f.at, err = c.DAV.Address(ctx, c.r, view, u); err != nil {
		return put, err
	}
	put = upload.PutFile{Place: f.at.Place, Path: f.at.Path, Conflict: drive.ConflictReplace}
	if put.MTime, err = dav.ParseMTime(cmp.Or(h.Get("X-OC-Mtime"), h.Get("X-File-Mtime"))); err != nil {
		return put, err
	}
	one := *c.r // a part has its own conditions
	one.Method, one.Header = http.MethodPut, h
	p, err := c.DAV.CheckPut(ctx, &one, view, u)
	put.Expect, f.tokens = p.Expect, p.Who.Tokens
	return put, err
}

// storeAlone stores the file of part n in a transaction of its own, outside of the batch. The
// answer has an error, or the node; neither if the node was deleted since.
func (c bulkRequest) storeAlone(ctx context.Context, n int, put upload.PutFile, b *bulk) batch.Answer {
	a := batch.Answer{N: n}
	who := c.who
	who.Tokens = b.files[n].tokens
	stored, err := c.Uploads.PutWhole(ctx, who, put, upload.ReaderWithCloser(b, b.src))
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Wrap(err, drive.ParentGone)
	}
	if a.Err = err; err != nil {
		return a
	}
	view, err := c.Files.ViewOf(ctx, c.who, stored.Node)
	if err == nil {
		a.Node = &view
	} else if !drive.IsKind(err, drive.NotFound) { // NotFound: it has been deleted since
		a.Err = err
	}
	return a
}

// bulkResult is the result of one file in the protocol's JSON.
type bulkResult struct {
	Error       bool   `json:"error"`
	Message     string `json:"message,omitempty"`
	ETag        string `json:"etag,omitempty"`
	FileID      string `json:"fileid,omitempty"`
	Permissions string `json:"permissions,omitempty"`
	MTime       string `json:"X-OC-MTime,omitempty"`
}

// results returns the result of each answered file by its path. It fails only if the properties of
// the stored files cannot be read.
func (c bulkRequest) results(ctx context.Context) (map[string]bulkResult, error) {
	lang := problem.Negotiate(c.r.Header.Get("Accept-Language"))
	b := c.files
	results := make(map[string]bulkResult, len(b.files))
	var page []dav.Entry
	var paths []string
	for _, a := range append(b.answers, b.stored...) {
		f := b.files[a.N]
		if a.Err == nil && a.Node == nil {
			a.Err = drive.Fail(drive.NotFound)
		}
		if a.Err != nil {
			said := problem.From(a.Err, lang, "")
			results[f.path] = bulkResult{Error: true, Message: said.Title + ": " + said.Detail}
			continue
		}
		page = append(page, dav.Entry{NodeView: *a.Node, Place: f.at.Place, Path: f.at.Path, Node: a.Node.ID})
		paths = append(paths, f.path)
	}
	id, permissions := dav.Name{Space: owncloud, Local: "id"}, dav.Name{Space: owncloud, Local: "permissions"}
	property, err := c.propertyReader().properties(ctx, c.who, page, []dav.Name{id, permissions})
	if err != nil {
		return nil, err
	}
	for i, e := range page {
		r := bulkResult{ETag: strings.Trim(e.Tag(), `"`), MTime: "accepted"}
		r.FileID, _ = property(e, id)
		r.Permissions, _ = property(e, permissions)
		results[paths[i]] = r
	}
	return results, nil
}
