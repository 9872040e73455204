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

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/upload"
)

// put is PUT of a whole file, of known or unknown length.
func (c *call) put(ctx context.Context) error {
	if c.r.Header.Get("Content-Range") != "" { // RFC 9110 §14.5: a part must not be taken for the whole
		return drive.Bad("Content-Range", drive.NotAllowed, "allowed", []string{})
	}
	if c.r.Header.Get(ocChunked) != "" { // nor must a chunk, whose client takes the file for stored with the last one
		return drive.Bad(ocChunked, drive.NotAllowed, "allowed", []string{})
	}
	err := server.RefuseEncoding(c.r)
	if err == nil {
		err = c.opt.Litter().takes(c.at.last())
	}
	var there *Entry
	if err == nil {
		there, err = target(ctx, c)
	}
	if err == nil {
		err = c.conditions(ctx, there)
	}
	if err == nil {
		err = mayPut(ctx, c, c.at, there)
	}
	if err != nil {
		return err
	}
	return c.store(ctx, there)
}

// target is the file that a PUT replaces; nil: there is none. It may be the top of a room: a file
// that is shared by itself.
func target(ctx context.Context, c *call) (*Entry, error) {
	there, err := c.there(ctx, c.at)
	switch {
	case err != nil:
		return nil, err
	case there != nil && there.IsFolder():
		return nil, noFile(c)
	case there == nil && c.at.isRoot():
		return nil, noPlace()
	}
	return there, nil
}

// noFile says that a file cannot be where a folder is (RFC 4918 §9.7.2).
func noFile(c *call) error {
	return drive.Fail(drive.Method, "method", c.r.Method, "allow", []string{"OPTIONS", "PROPFIND", "GET", "HEAD"})
}

// there is find of what may be missing.
func (c *call) there(ctx context.Context, p place) (*Entry, error) {
	e, err := c.find(ctx, p)
	if drive.IsKind(err, drive.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// mayPut refuses to change what is locked: the file that is there, or the folder that gets a new
// one.
func mayPut(ctx context.Context, c *call, p place, there *Entry) error {
	if there != nil {
		return c.unlocked(ctx, *there, there.IsFolder())
	}
	parent, err := c.findParent(ctx, p)
	if err != nil {
		return err
	}
	return c.unlocked(ctx, parent, false)
}

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
	return c.stored(ctx, stored)
}

// dropEmpty takes the version out of the history that LOCK has made of nothing.
func dropEmpty(ctx context.Context, c *call, there Entry) error {
	all, err := c.marks.LocksAt(ctx, c.who, there.Node, false)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(l lock.Lock) bool { return l.Made && l.Node == there.Node }) {
		return nil
	}
	err = c.marks.DropEmpty(ctx, c.who, there.Node, there.Version)
	if drive.IsKind(err, drive.NotFound) { // by a request beside this one
		return nil
	}
	return err
}

// stored answers a PUT, which has been committed: nothing makes an error of it any more. The tag is
// that of what was sent. Where somebody has replaced it since there is none, and the client asks.
func (c *call) stored(ctx context.Context, s upload.Stored) error {
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
	return c.made(s.Created)
}

// made answers 201 for what is new and 204 for what was there.
func (c *call) made(created bool) error {
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
		c.w.Header().Set("Content-Length", "0")
	}
	c.w.WriteHeader(status)
	return nil
}

// incoming is the body of a PUT, which must have the length that was promised: by Content-Length,
// or by X-Expected-Entity-Length, which macOS sends with a chunked body. Some proxies hand on
// nothing of such a body: then nothing is stored (D3).
func (c *call) incoming(put *upload.PutFile) (io.Reader, error) {
	switch put.Size = drive.ByteSize(c.r.ContentLength); {
	case put.Size < 0:
		put.Size = blob.UnknownSize
	case put.Size == 0 && c.r.Header.Get("Content-Length") == "": // neither a length nor a body: who means an empty file says so
		return nil, drive.Fail(drive.LengthRequired)
	}
	in := server.Incoming(c.r)
	var body io.Reader = in
	var err error
	if put.Digests, err = Declared(c.r.Header); err != nil {
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
	return upload.Ending(&promised{body, expected}, in), nil
}

// promised is a body that must have so many bytes.
type promised struct {
	io.Reader

	left int64
}

func (p *promised) Read(buf []byte) (int, error) {
	n, err := p.Reader.Read(buf)
	p.left -= int64(n)
	if p.left < 0 || errors.Is(err, io.EOF) && p.left > 0 {
		return n, drive.Fail(drive.BadRequest, "field", "body", "reason", "cut")
	}
	return n, err
}

// ocMTime is the header by which clients of ownCloud and Nextcloud keep the time of a file: seconds
// since 1970, perhaps with a fraction.
const ocMTime = "X-OC-Mtime"

// ocChunked is the header of the chunks that clients of ownCloud sent before version 10, each as a
// file NAME-chunking-ID-COUNT-N of its own. Libraries still do.
const ocChunked = "OC-Chunked"

// The times that X-OC-Mtime may say, in ms: what RFC 3339 can say, years 1 to 9999.
const (
	minMTime = -62_135_596_800_000
	maxMTime = 253_402_300_799_999
)

// ParseMTime reads what X-OC-Mtime says; zero: nothing.
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
