package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// PutFile describes a whole file sent in one request.
type PutFile struct {
	Path     string
	Size     int64 // bytes; -1 when unknown
	Mtime    time.Time
	Conflict Conflict // default Replace
	Parents  bool
	Body     func() (io.Reader, error) // reopened for each attempt
}

// PutFile sends a whole file in one request. It is not repeated once it may have been carried out;
// Uploader.Put looks first.
func (c *Client) PutFile(ctx context.Context, f PutFile) (Node, error) {
	n, _, err := c.putFile(ctx, f, nil, nil)
	return n, err
}

// putFile reports with doubt that it failed and may have been carried out all the same.
func (c *Client) putFile(ctx context.Context, f PutFile, count func(int64), p *patience) (n Node, doubt bool, err error) {
	query := url.Values{"conflict": {string(orElse(f.Conflict, Replace))}}
	if f.Parents {
		query.Set("parents", "true")
	}
	place, inside := SplitPlace(f.Path)
	query = inSpace(query, strings.TrimPrefix(place, "//"))
	body := func() (*upBody, error) {
		r, err := f.Body()
		return &upBody{size: f.Size, from: r, count: count}, err
	}
	k := &call{
		method: http.MethodPut, path: "/files" + escapePath(inside), query: query, body: body, out: &n, once: true, patience: p,
	}
	k.setHeader("Content-Type", "application/octet-stream")
	if !f.Mtime.IsZero() {
		k.setHeader("X-Mtime", itoa(f.Mtime.UnixMilli()))
	}
	err = c.do(ctx, k)
	return n, err != nil && k.doubt, err
}

// Content is an open download. Close it.
type Content struct {
	io.ReadCloser
	ETag   string
	Offset int64 // of the first byte, as the server granted it
	Length int64 // bytes that follow, -1 when unknown
	Size   int64 // of the whole file, -1 when unknown
}

// ErrChanged is a file that was no longer the same while it was transferred.
var ErrChanged = errors.New("the file changed while it was transferred")

// Range asks for a part of a file. The zero value is all of it.
type Range struct {
	Offset, Length int64  // bytes; Length 0 means up to the end
	ETag           string // if not empty: only of this content, else ErrChanged
	Version        string // an old version's id
}

// Open starts to download a file's content. It is one attempt; Downloader.Get survives
// interruptions.
func (c *Client) Open(ctx context.Context, id string, r Range) (*Content, error) {
	k := &call{method: http.MethodGet, path: nodePath(id) + "/content", content: true}
	if r.Version != "" {
		k.query = url.Values{"version": {r.Version}}
	}
	ranged := r.Offset > 0 || r.Length > 0
	if ranged {
		last := ""
		if r.Length > 0 {
			last = itoa(r.Offset + r.Length - 1)
		}
		k.setHeader("Range", "bytes="+itoa(r.Offset)+"-"+last)
		if r.ETag != "" {
			k.setHeader("If-Range", r.ETag)
		}
	}
	resp, err := c.roundTrip(ctx, k, false)
	if err != nil {
		return nil, err
	}
	content, err := newContent(resp, r, ranged)
	if err != nil {
		_ = resp.Body.Close()
	}
	return content, err
}

func newContent(resp *http.Response, r Range, ranged bool) (*Content, error) {
	o := &Content{ReadCloser: resp.Body, ETag: resp.Header.Get("ETag"), Length: resp.ContentLength, Size: resp.ContentLength}
	if r.ETag != "" && o.ETag != r.ETag {
		if o.ETag == "" {
			return nil, newProxyError(resp, nil)
		}
		return nil, ErrChanged
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		var last int64
		_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &o.Offset, &last, &o.Size)
		if err != nil || o.Offset != r.Offset {
			return nil, newProxyError(resp, nil)
		}
	case ranged: // a proxy dropped the Range
		return nil, fmt.Errorf("%w (a range was asked for, the whole came)", newProxyError(resp, nil))
	}
	return o, nil
}
