package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
)

// call is one request of the API, to be repeated until it has an answer.
type call struct {
	method  string
	path    string // below /api/v1, escaped
	query   url.Values
	header  http.Header
	in      any                     // sent as JSON
	body    func() (*upBody, error) // or streamed, made again for each attempt
	out     any                     // a 2xx reply is decoded into it
	key     bool                    // carries an Idempotency-Key, the same in every attempt
	once    bool                    // is not repeated after a doubtful failure
	content bool                    // asks for a file's bytes, which may be at the store

	patience *patience // default: the client's GiveUp from now on
	doubt    bool      // set when an attempt failed doubtfully
	status   int       // of the reply
}

// api is the prefix of every path.
const api = "/api/v1"

// do runs k until it is answered or patience is over.
func (c *Client) do(ctx context.Context, k *call) error {
	if k.patience == nil {
		k.patience = newPatience(c.opt.GiveUp)
		k.patience.notify = c.opt.Waiting
	}
	if k.key {
		k.setHeader("Idempotency-Key", rand.Text())
	}
	for failures := 0; ; {
		err := c.try(ctx, k, failures > 0)
		if err == nil || k.done(err) {
			k.patience.touch()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v := judge(err)
		if v.doubtful {
			k.doubt = true
			v.again = v.again && !k.once
		}
		failures++
		if err := c.pause(ctx, k.patience, v, failures, err); err != nil {
			return err
		}
	}
}

// done reports that err says what an earlier attempt without an answer has already brought about.
func (k *call) done(err error) bool {
	return k.doubt && k.method == http.MethodDelete && IsCode(err, CodeNotFound, CodeGone)
}

func (k *call) setHeader(name, value string) {
	if k.header == nil {
		k.header = make(http.Header)
	}
	k.header.Set(name, value)
}

// try is one attempt.
func (c *Client) try(ctx context.Context, k *call, again bool) error {
	resp, err := c.roundTrip(ctx, k, again)
	if err != nil {
		return err
	}
	defer letGo(resp.Body)
	k.status = resp.StatusCode
	if k.out == nil || resp.StatusCode == http.StatusNoContent {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // so that the connection is kept
		return asCut(ctx, err)
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "application/json" {
		return newProxyError(resp, nil)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return asCut(ctx, err)
	}
	if err := json.Unmarshal(raw, k.out); err != nil {
		return fmt.Errorf("read the reply to %s %s: %w", k.method, k.path, err)
	}
	return nil
}

// roundTrip sends k once and returns a reply of 2xx or 304; everything else is an error. The caller
// closes the body.
func (c *Client) roundTrip(ctx context.Context, k *call, again bool) (*http.Response, error) {
	ctx, watch := newWatch(ctx, c.opt.Stall)
	req, body, err := c.request(ctx, k, watch)
	if err != nil {
		watch.stop()
		return nil, err
	}
	if again && body != nil && body.size > maxProblem {
		req.Header.Set("Expect", "100-continue") // learn why the last attempt was cut before sending it all again
	}
	resp, err := c.http.Do(req)
	if body != nil && (!body.beside || err != nil || resp.StatusCode >= 300) {
		body.end(err != nil || resp.StatusCode >= 300)
	}
	if err != nil {
		watch.stop()
		return nil, sortOut(ctx, err, body)
	}
	if leadsToStore(k, resp) {
		if resp, err = c.fromStore(ctx, k, resp); err != nil {
			watch.stop()
			return nil, err
		}
	}
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotModified {
		defer watch.stop()
		return nil, readError(resp)
	}
	if body != nil && body.beside { // its own watch goes on
		resp.Body = &besideBody{ReadCloser: resp.Body, sent: body, watch: watch}
		return resp, nil
	}
	resp.Body = &downBody{ReadCloser: resp.Body, watch: watch}
	return resp, nil
}

func (c *Client) request(ctx context.Context, k *call, watch *watch) (*http.Request, *upBody, error) {
	target := c.base + api + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var (
		reader io.Reader
		body   *upBody
		err    error
	)
	switch {
	case k.body != nil:
		if body, err = k.body(); err != nil {
			return nil, nil, &localError{err}
		}
		body.watch, reader = watch, body
	case k.in != nil:
		raw, err := encode(k.in)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", k.method, k.path, err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, reader)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", k.method, k.path, err)
	}
	maps.Copy(req.Header, k.header)
	if body != nil {
		req.ContentLength = body.size
		if body.size == 0 {
			req.Body = http.NoBody
		}
	} else if k.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.agent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, body, nil
}

// sortOut tells apart why an attempt has no reply: the file, the caller, or the connection.
func sortOut(ctx context.Context, err error, body *upBody) error {
	if body != nil {
		if local := body.failed(); local != nil {
			return &localError{local}
		}
	}
	return asCut(ctx, err)
}

// asCut wraps an error of the connection; nil stays nil.
func asCut(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errStalled) {
		return &cutError{err: errStalled, sent: true}
	}
	var (
		op  *net.OpError
		url *url.Error
	)
	cut := &cutError{err: err, sent: true}
	if errors.As(err, &url) {
		cut.err = url.Err // without the URL, which the user knows
	}
	if errors.As(err, &op) && op.Op == "dial" {
		cut.sent = false
	}
	return cut
}

// fetch runs k and returns what the reply says.
func fetch[T any](ctx context.Context, c *Client, k *call) (T, error) {
	var v T
	k.out = &v
	err := c.do(ctx, k)
	return v, err
}
