package dav

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload"
)

// put handles PUT of a whole file, of known or unknown length. It fails with drive.BadRequest for a
// part of a file (Content-Range, OC-Chunked), drive.ParentGone without a folder,
// drive.Precondition, drive.Locked, and the errors of storing.
func (c *call) put(ctx context.Context) error {
	if c.r.Header.Get("Content-Range") != "" { // RFC 9110 §14.5: a part must not be stored as the whole
		return drive.BadField("Content-Range", drive.NotAllowed, "allowed", []string{})
	}
	if c.r.Header.Get(ocChunked) != "" { // nor a chunk, whose client takes the file for complete after the last one
		return drive.BadField(ocChunked, drive.NotAllowed, "allowed", []string{})
	}
	err := server.RefuseEncoding(c.r)
	if err == nil {
		err = c.opt.Litter().checkName(c.at.last())
	}
	var there *Entry
	if err == nil {
		there, err = replacedFile(ctx, c)
	}
	if err == nil {
		err = c.conditions(ctx, there)
	}
	if err == nil {
		err = checkWritable(ctx, c, c.at, there)
	}
	if err != nil {
		return err
	}
	return c.store(ctx, there)
}

// replacedFile returns the file at the request's URL, which a PUT would replace, or nil if there is
// none. It fails with drive.Method for a folder, and with refuseLayout's error where no file can be
// created.
func replacedFile(ctx context.Context, c *call) (*Entry, error) {
	there, err := c.lookup(ctx, c.at)
	switch {
	case err != nil:
		return nil, err
	case there != nil && there.IsFolder():
		return nil, refuseFile(c)
	case there == nil && c.at.isRoot():
		return nil, refuseLayout()
	}
	return there, nil
}

// refuseFile returns the error for a PUT on a folder (RFC 4918 §9.7.2).
func refuseFile(c *call) error {
	return drive.Fail(drive.Method, "method", c.r.Method, "allow", []string{"OPTIONS", "PROPFIND", "GET", "HEAD"})
}

// lookup returns the entry at p, or nil without an error if it is missing or the caller may not see
// it.
func (c *call) lookup(ctx context.Context, p location) (*Entry, error) {
	e, err := c.find(ctx, p)
	if drive.IsKind(err, drive.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// checkWritable fails with drive.Locked if the existing entry, or anything below it, is locked and
// the request submits no token of that lock. For a new entry, with there nil, it checks the folder
// instead, and fails with drive.ParentGone if that is missing.
func checkWritable(ctx context.Context, c *call, p location, there *Entry) error {
	if there != nil {
		return c.checkUnlocked(ctx, *there, there.IsFolder())
	}
	parent, err := c.findParent(ctx, p)
	if err != nil {
		return err
	}
	return c.checkUnlocked(ctx, parent, false)
}

// store stores the body of a PUT as a new file, or as the next version of an existing one, and
// answers 201 or 204. there is the existing file; nil for none. If there is an empty file that a
// LOCK created, its empty version is removed from the history. A missing folder fails with
// drive.ParentGone.
func (c *call) store(ctx context.Context, there *Entry) error {
	at, err := c.address(ctx, c.at)
	if err != nil {
		return err
	}
	put := upload.PutFile{Place: at.Place, Path: at.Path, Conflict: drive.ConflictReplace}
	body, err := c.incoming(&put)
	if err == nil {
		put.MTime, err = ParseMTime(c.r.Header.Get(ocMTime))
	}
	if err != nil {
		return err
	}
	put.Expect = c.expect
	stored, err := c.opt.Uploads.PutWhole(ctx, c.who, put, body)
	if drive.IsKind(err, drive.NotFound) { // RFC 4918 §9.7.1: the folder is missing
		err = drive.Wrap(err, drive.ParentGone)
	}
	if err != nil {
		return err
	}
	if there != nil && there.Size == 0 {
		if err := dropEmpty(ctx, c, *there); err != nil {
			return err
		}
	}
	return c.respondPut(ctx, stored)
}

// dropEmpty removes from the history the empty version of the file there that a LOCK created. It
// does nothing unless a lock that created the file still exists.
func dropEmpty(ctx context.Context, c *call, there Entry) error {
	all, err := c.marks.LocksAt(ctx, c.who, there.Node, false)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(l lock.Lock) bool { return l.CreatedFile && l.Node == there.Node }) {
		return nil
	}
	err = c.marks.DropEmpty(ctx, c.who, there.Node, there.Version)
	if drive.IsKind(err, drive.NotFound) { // a concurrent request has removed it
		return nil
	}
	return err
}

// respondPut answers a PUT that has been committed, so it always returns nil. The ETag is that of
// the stored content. If it is unknown, because the file has been replaced since, the response has
// none.
func (c *call) respondPut(ctx context.Context, s upload.Stored) error {
	h := c.w.Header()
	if sum, ok := s.Digests[digest.Blake3]; ok && c.view.Describe == nil {
		h.Set("ETag", tagOf(hex.EncodeToString(sum)))
	} else {
		e, err := c.find(ctx, c.at)
		if err == nil && e.Node == s.Node.ID && e.Version == s.Node.Version {
			h.Set("ETag", e.Tag())
			c.describe(ctx, e)
		}
	}
	if c.r.Header.Get(ocMTime) != "" {
		h.Set(ocMTime, "accepted")
	}
	return c.respondChanged(s.Created)
}

// respondChanged writes 201 if created, else 204. It always returns nil, so that handlers can end
// with it.
func (c *call) respondChanged(created bool) error {
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
		c.w.Header().Set("Content-Length", "0")
	}
	c.w.WriteHeader(status)
	return nil
}

// incoming returns the body of a PUT, and sets the size and the declared digests in put. Reading
// fails unless the body has the length of Content-Length or of X-Expected-Entity-Length, which
// macOS sends with a chunked body. Some proxies drop such a body; then nothing is stored (D3). It
// fails with drive.LengthRequired without a body and a length, and with drive.BadRequest for a
// malformed header.
func (c *call) incoming(put *upload.PutFile) (io.Reader, error) {
	switch put.Size = drive.ByteSize(c.r.ContentLength); {
	case put.Size < 0:
		put.Size = blob.UnknownSize
	case put.Size == 0 && c.r.Header.Get("Content-Length") == "": // neither a length nor a body; an empty file needs a length of 0
		return nil, drive.Fail(drive.LengthRequired)
	}
	in := server.RequestBody(c.r)
	var body io.Reader = in
	var err error
	if put.Digests, err = DeclaredDigests(c.r.Header); err != nil {
		return nil, err
	}
	text := c.r.Header.Get("X-Expected-Entity-Length")
	if text == "" {
		return body, nil
	}
	expected, err := strconv.ParseInt(text, 10, 64)
	if err != nil || expected < 0 {
		return nil, drive.Wrap(err, drive.BadRequest, "field", "X-Expected-Entity-Length", "reason", string(drive.Malformed), "expected", "a number of bytes")
	}
	if put.Size == blob.UnknownSize && expected > 0 {
		put.Size = drive.ByteSize(expected)
	}
	return upload.ReaderWithCloser(&exactBody{body, expected}, in), nil
}

// exactBody is a body of exactly left bytes.
type exactBody struct {
	io.Reader

	left int64
}

// Read fails with drive.BadRequest, reason "cut", if the body is longer or shorter than the
// declared length.
func (p *exactBody) Read(buf []byte) (int, error) {
	n, err := p.Reader.Read(buf)
	p.left -= int64(n)
	if p.left < 0 || errors.Is(err, io.EOF) && p.left > 0 {
		return n, drive.Fail(drive.BadRequest, "field", "body", "reason", "cut")
	}
	return n, err
}

// ocMTime is the header by which clients of ownCloud and Nextcloud set a file's time: seconds since
// 1970, possibly with a fraction.
const ocMTime = "X-OC-Mtime"

// ocChunked is the header of chunks that clients of ownCloud before version 10, and some libraries,
// send as separate files NAME-chunking-ID-COUNT-N.
const ocChunked = "OC-Chunked"

// Range of X-OC-Mtime in milliseconds: the years 1 to 9999, which RFC 3339 can express.
const (
	minMTime = -62_135_596_800_000
	maxMTime = 253_402_300_799_999
)

// ParseMTime parses the value of X-OC-Mtime, seconds since 1970; an empty value gives 0. It fails
// with drive.BadRequest for text that is not a number or outside of the years 1 to 9999.
func ParseMTime(text string) (drive.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if ms := seconds * 1000; err != nil || !(ms >= minMTime && ms <= maxMTime) {
		return 0, drive.Wrap(err, drive.BadRequest, "field", ocMTime, "reason", string(drive.Malformed), "expected", "Unix seconds")
	}
	return drive.TimeOf(time.UnixMilli(int64(seconds * 1000))), nil
}
