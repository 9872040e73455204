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

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/head/dav"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/batch"
	"smartdrive/internal/usecase/upload"
)

// Many small files come in one request, a part each (see related):
//
//	POST bulk
//	X-File-Path: /folder/file   as clients see it
//	X-File-Mtime: 1700000000    or X-OC-Mtime
//	X-File-MD5: ...             or OC-Checksum: verified before the file is there
//	If-Match: "..."             what the file replaces
//
// The answer is a JSON object with a member for each path that was stored or refused: a client
// sends the others again. What goes into the caller's own drive is a batch. What goes elsewhere,
// or is too large for one, is stored by itself, as PUT stores it.

// sendsMany reports whether a client may be told of this. Those of the desktop before 3.9.1 cannot
// send an empty file that way, and with it none of the files beside it, each time that they try
// (nextcloud/desktop#5871; decision 115).
func sendsMany(userAgent string) bool {
	_, version, desktop := strings.Cut(userAgent, "mirall/")
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor) // what cannot be read is 0
	return desktop && n == 2 && (major > 3 || major == 3 && minor >= 10)
}

// maxBulk is how many bytes a request may have: as many files as a batch takes, of 256 KiB each.
const maxBulk = 256 << 20

const bulkType = "multipart/related"

// bulk is the files of one request.
type bulk struct {
	src   io.ReadCloser
	parts *related
	put   func(h http.Header, size int64) (item batch.Item, done bool) // what a part asks for; done: it was stored
	sent  int64                                                        // bytes so far
	err   error                                                        // io.EOF, or why no more can be read

	files   []bulkFile // by number
	answers []batch.Answer
	alone   []batch.Answer // of those that were stored by themselves
}

// bulkFile is where a part goes.
type bulkFile struct {
	path   string // as the client has it
	at     drive.Address
	tokens drive.Tokens // of locks, that the part submits
}

var _ batch.Source = (*bulk)(nil)

func newBulk(src io.ReadCloser, boundary string) *bulk {
	b := &bulk{src: src}
	b.parts = &related{in: bufio.NewReaderSize((*bulkBytes)(b), 64<<10), boundary: boundary}
	return b
}

// bulkBytes are the bytes of the request, up to its limit.
type bulkBytes bulk

func (b *bulkBytes) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if b.sent += int64(n); b.sent > maxBulk {
		return 0, drive.Fail(drive.TooLarge, "field", "body", "limit", maxBulk, "sent", b.sent)
	}
	return n, err
}

// Next implements batch.Source.
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

// Read implements io.Reader: it reads the bytes of a part.
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

// Err implements batch.Source.
func (b *bulk) Err() error {
	if errors.Is(b.err, io.EOF) {
		return nil
	}
	return b.err
}

// Stop implements batch.Source.
func (b *bulk) Stop() { _ = b.src.Close() }

func (b *bulk) tell(answers []batch.Answer) error {
	b.answers = append(b.answers, answers...)
	return nil
}

// sending is a request of many files.
type sending struct {
	*call
	files *bulk
}

// bulk answers a request of many files.
func (c *call) bulk(ctx context.Context) error {
	if c.r.Method != http.MethodPost {
		return c.methodNotAllowed(http.MethodPost)
	}
	leave, err := c.enter(true)
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
	all := sending{c, newBulk(server.Incoming(c.r), params["boundary"])}
	all.files.put = func(h http.Header, size int64) (batch.Item, bool) { return all.file(ctx, h, size) }
	broken := c.Batches.Run(ctx, c.who, idem.Request{}, all.files, all.files.tell)
	results, err := all.results(ctx)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if broken != nil { // of what is not in the answer the client knows nothing
		status = problem.From(broken, problem.English, "").Status
		problem.Note(c.w, broken)
	}
	c.w.Header().Set("Cache-Control", "no-store")
	return c.sendJSON(status, results)
}

// file makes of a part an item of the batch, or stores it, where no batch can.
func (c sending) file(ctx context.Context, h http.Header, size int64) (item batch.Item, done bool) {
	b := c.files
	n := len(b.files)
	f := bulkFile{path: h.Get("X-File-Path")}
	put, err := c.put(ctx, &f, h)
	put.Size = drive.ByteSize(size)
	b.files = append(b.files, f)
	if err == nil {
		put.Digests, err = partDigests(h)
	}
	if err == nil && (f.at.Place != "" || put.Size > upload.LaidSize) {
		b.alone = append(b.alone, c.alone(ctx, n, put, b))
		return batch.Item{}, true
	}
	return batch.Item{N: n, Op: batch.Put, Err: err, File: put, Tokens: f.tokens, Body: b}, false
}

// partDigests are the digests that a part declares, which are verified before its file is there.
func partDigests(h http.Header) (digest.Set, error) {
	sums, err := dav.Declared(h)
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

// put is what a part asks for, if it may be stored where it goes.
func (c sending) put(ctx context.Context, f *bulkFile, h http.Header) (put upload.PutFile, err error) {
	if f.path == "" {
		return put, drive.Bad("X-File-Path", drive.Required)
	}
	view, u := c.view(ctx, "/"), &url.URL{Path: "/" + strings.TrimLeft(f.path, "/")}
	if f.at, err = c.DAV.Address(ctx, c.r, view, u); err != nil {
		return put, err
	}
	put = upload.PutFile{Place: f.at.Place, Path: f.at.Path, Conflict: drive.ConflictReplace}
	if put.MTime, err = dav.ParseMTime(cmp.Or(h.Get("X-OC-Mtime"), h.Get("X-File-Mtime"))); err != nil {
		return put, err
	}
	one := *c.r // a part has conditions of its own
	one.Method, one.Header = http.MethodPut, h
	p, err := c.DAV.MayPut(ctx, &one, view, u)
	put.Expect, f.tokens = p.Expect, p.Who.Tokens
	return put, err
}

// alone stores one file.
func (c sending) alone(ctx context.Context, n int, put upload.PutFile, b *bulk) batch.Answer {
	a := batch.Answer{N: n}
	who := c.who
	who.Tokens = b.files[n].tokens
	stored, err := c.Uploads.PutWhole(ctx, who, put, upload.Ending(b, b.src))
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Wrap(err, drive.ParentGone)
	}
	if a.Err = err; err != nil {
		return a
	}
	view, err := c.Files.ViewOf(ctx, c.who, stored.Node)
	if err == nil {
		a.Node = &view
	} else if !drive.IsKind(err, drive.NotFound) { // else it has gone since
		a.Err = err
	}
	return a
}

// bulkResult is what became of a file, in the words of the protocol.
type bulkResult struct {
	Error       bool   `json:"error"`
	Message     string `json:"message,omitempty"`
	ETag        string `json:"etag,omitempty"`
	FileID      string `json:"fileid,omitempty"`
	Permissions string `json:"permissions,omitempty"`
	MTime       string `json:"X-OC-MTime,omitempty"`
}

// results are what became of the files, by path.
func (c sending) results(ctx context.Context) (map[string]bulkResult, error) {
	lang := problem.Negotiate(c.r.Header.Get("Accept-Language"))
	b := c.files
	results := make(map[string]bulkResult, len(b.files))
	var page []dav.Entry
	var paths []string
	for _, a := range append(b.answers, b.alone...) {
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
	property, err := c.describer().properties(ctx, c.who, page, []dav.Name{id, permissions})
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
