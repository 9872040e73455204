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

// request is one API request. Client.do repeats it until it succeeds, fails for good, or exhausts
// its retry budget.
type request struct {
	method         string
	path           string // below /api/v1, escaped
	query          url.Values
	header         http.Header
	input          any                          // JSON body; nil: none
	body           func() (*requestBody, error) // streamed body, opened for each attempt; nil: none
	output         any                          // pointer that the JSON of a 2xx reply is decoded into; nil: the reply is discarded
	withKey        bool                         // sends an Idempotency-Key, the same in every attempt
	noRetryInDoubt bool                         // not retried after a failure in doubt
	content        bool                         // downloads file content, which may be redirected to the store

	budget  *retryBudget // default: a new budget of Options.RetryFor
	inDoubt bool         // set if an attempt failed in doubt
	status  int          // HTTP status of the last reply
}

// apiPrefix is the path prefix of the API.
const apiPrefix = "/api/v1"

// do sends k, with retries and backoff, until it succeeds, and decodes the reply into k.output. It
// returns the last error if the error is permanent or the retry budget is exhausted, and the
// context's cause if ctx ends. It sets k.budget, k.inDoubt and k.status. A DELETE whose object is
// missing after a lost reply succeeds.
func (c *Client) do(ctx context.Context, k *request) error {
	if k.budget == nil {
		k.budget = newRetryBudget(c.opt.RetryFor)
		k.budget.notify = c.opt.OnRetry
	}
	if k.withKey {
		k.setHeader("Idempotency-Key", rand.Text())
	}
	for failures := 0; ; {
		err := c.doOnce(ctx, k, failures > 0)
		if err == nil || k.alreadyDone(err) {
			k.budget.reset()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v := classifyError(err)
		if v.inDoubt {
			k.inDoubt = true
			v.retry = v.retry && !k.noRetryInDoubt
		}
		failures++
		if err := c.backoff(ctx, k.budget, v, failures, err); err != nil {
			return err
		}
	}
}

// alreadyDone reports whether err shows that an earlier attempt, whose reply was lost, deleted the
// object.
func (r *request) alreadyDone(err error) bool {
	return r.inDoubt && r.method == http.MethodDelete && IsCode(err, CodeNotFound, CodeGone)
}

// setHeader sets one header of the request.
func (r *request) setHeader(name, value string) {
	if r.header == nil {
		r.header = make(http.Header)
	}
	r.header.Set(name, value)
}

// doOnce makes one attempt and decodes the reply. again marks a retry. It fails with a Problem, a
// ProxyError if another server has answered, or a connection error; it sets k.status.
func (c *Client) doOnce(ctx context.Context, k *request, again bool) error {
	resp, err := c.roundTrip(ctx, k, again)
	if err != nil {
		return err
	}
	defer closeQuietly(resp.Body)
	k.status = resp.StatusCode
	if k.output == nil || resp.StatusCode == http.StatusNoContent {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // drain the body, so that the connection can be reused
		return wrapConnError(ctx, err)
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "application/json" {
		return newProxyError(resp, nil)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return wrapConnError(ctx, err)
	}
	if err := json.Unmarshal(raw, k.output); err != nil {
		return fmt.Errorf("read the reply to %s %s: %w", k.method, k.path, err)
	}
	return nil
}

// roundTrip sends k once. It returns a reply with status 2xx or 304, whose body the caller closes;
// any other status is returned as a *Problem, *ProxyError or *StoreError. again marks a retry.
func (c *Client) roundTrip(ctx context.Context, k *request, again bool) (*http.Response, error) {
	ctx, watch := newStallTimer(ctx, c.opt.StallTimeout)
	req, body, err := c.newHTTPRequest(ctx, k, watch)
	if err != nil {
		watch.stop()
		return nil, err
	}
	if again && body != nil && body.size > maxProblem {
		req.Header.Set("Expect", "100-continue") // the server or proxy can refuse the body before it is sent again
	}
	resp, err := c.http.Do(req)
	if body != nil && (!body.duplex || err != nil || resp.StatusCode >= 300) {
		body.finish(err != nil || resp.StatusCode >= 300)
	}
	if err != nil {
		watch.stop()
		return nil, transportError(ctx, err, body)
	}
	if isStoreRedirect(k, resp) {
		if resp, err = c.fetchFromStore(ctx, k, resp); err != nil {
			watch.stop()
			return nil, err
		}
	}
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotModified {
		defer watch.stop()
		return nil, readError(resp)
	}
	if body != nil && body.duplex { // the reply arrives while the body is still being sent
		resp.Body = &duplexBody{ReadCloser: resp.Body, request: body, stall: watch}
		return resp, nil
	}
	resp.Body = &responseBody{ReadCloser: resp.Body, stall: watch}
	return resp, nil
}

// newHTTPRequest builds the HTTP request of one attempt. The *requestBody is nil if k has no
// streamed body. A failure to open the local body is a localError, which is not retried.
func (c *Client) newHTTPRequest(ctx context.Context, k *request, watch *stallTimer) (*http.Request, *requestBody, error) {
	target := c.base + apiPrefix + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var (
		reader io.Reader
		body   *requestBody
		err    error
	)
	switch {
	case k.body != nil:
		if body, err = k.body(); err != nil {
			return nil, nil, &localError{err}
		}
		body.stall, reader = watch, body
	case k.input != nil:
		raw, err := encode(k.input)
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
	} else if k.input != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.agent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, body, nil
}

// transportError classifies an attempt without a reply: a *localError if the source of the body
// failed, otherwise a *connError.
func transportError(ctx context.Context, err error, body *requestBody) error {
	if body != nil {
		if local := body.sourceErr(); local != nil {
			return &localError{local}
		}
	}
	return wrapConnError(ctx, err)
}

// wrapConnError wraps a connection error as a *connError; nil stays nil. Unless dialing failed, the
// error is in doubt: the server may have executed the request. If ctx was cancelled with
// errStalled, the result wraps errStalled and is always in doubt.
func wrapConnError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errStalled) {
		return &connError{err: errStalled, sent: true}
	}
	var (
		op  *net.OpError
		url *url.Error
	)
	cut := &connError{err: err, sent: true}
	if errors.As(err, &url) {
		cut.err = url.Err // drop the URL from the message
	}
	if errors.As(err, &op) && op.Op == "dial" {
		cut.sent = false
	}
	return cut
}

// fetch sends k and returns the decoded reply. It overwrites k.output. On an error v is zero or
// partly decoded.
func fetch[T any](ctx context.Context, c *Client, k *request) (T, error) {
	var v T
	k.output = &v
	err := c.do(ctx, k)
	return v, err
}
