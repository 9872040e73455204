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

// PutFile describes a whole file to be sent in one request.
type PutFile struct {
	Path     string
	Size     int64 // bytes; -1 when unknown
	Mtime    time.Time
	Conflict Conflict // default Replace
	Parents  bool
	Body     func() (io.Reader, error) // called for each attempt
}

// PutFile sends a whole file in one request and returns its node. It does not retry if an earlier
// attempt may have been carried out; Uploader.Put compares first and then retries.
func (c *Client) PutFile(ctx context.Context, f PutFile) (Node, error) {
	n, _, err := c.putFile(ctx, f, nil, nil)
	return n, err
}

// putFile uploads a small file in one request, reports sent bytes to count, and retries within the
// budget p. inDoubt reports, together with an error, that the server may have stored the file.
func (c *Client) putFile(ctx context.Context, f PutFile, count func(int64), p *retryBudget) (n Node, inDoubt bool, err error) {
	query := url.Values{"conflict": {string(orDefault(f.Conflict, Replace))}}
	if f.Parents {
		query.Set("parents", "true")
	}
	place, inside := SplitPlace(f.Path)
	query = inSpace(query, strings.TrimPrefix(place, "//"))
	body := func() (*requestBody, error) {
		r, err := f.Body()
		return &requestBody{size: f.Size, src: r, count: count}, err
	}
	k := &request{
		method: http.MethodPut, path: "/files" + escapePath(inside), query: query, body: body, output: &n, noRetryInDoubt: true, budget: p,
	}
	k.setHeader("Content-Type", "application/octet-stream")
	if !f.Mtime.IsZero() {
		k.setHeader("X-Mtime", itoa(f.Mtime.UnixMilli()))
	}
	err = c.do(ctx, k)
	return n, err != nil && k.inDoubt, err
}

// Content is the content of a file being downloaded. The caller closes it.
type Content struct {
	io.ReadCloser
	ETag   string
	Offset int64 // of the first byte
	Length int64 // of this body in bytes, -1 if unknown
	Size   int64 // of the whole file in bytes, -1 if unknown
}

// ErrChanged reports that a file changed during its transfer.
var ErrChanged = errors.New("the file changed while it was transferred")

// Range selects a part of a file. The zero value selects all of the current content.
type Range struct {
	Offset, Length int64  // bytes; Length 0: up to the end
	ETag           string // if not empty, Open fails with ErrChanged if the content has another ETag
	Version        string // id of a version; empty: the current one
}

// Open starts downloading a file's content, in one attempt. Downloader.Get resumes after
// interruptions; Open does not. The caller closes the content. It fails with CodeNotFound, or
// CodeRange for an offset beyond the end.
func (c *Client) Open(ctx context.Context, id string, r Range) (*Content, error) {
	k := &request{method: http.MethodGet, path: nodePath(id) + "/content", content: true}
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

// newContent checks that the reply is the requested range. It returns ErrChanged if the ETag
// differs, a *ProxyError if a proxy ignored the range. The caller closes the body on errors.
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
	case ranged: // a proxy dropped the Range header
		return nil, fmt.Errorf("%w (a range was asked for, the whole came)", newProxyError(resp, nil))
	}
	return o, nil
}
