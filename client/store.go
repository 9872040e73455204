package client

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"time"
)

// StoreError is what the store answered that the server had sent a download on to.
type StoreError struct {
	Status     int
	Host       string
	Code       string // the store's own word, such as "AccessDenied"; may be empty
	RetryAfter time.Duration
}

func (e *StoreError) Error() string {
	text := fmt.Sprintf("the store at %s, where the server keeps the content, answered %d", e.Host, e.Status)
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	return text
}

// leadsToStore reports whether a reply is the server's word that the content is at its store. Its
// ETag tells it from the redirects that proxies make up, which nobody follows.
func leadsToStore(k *call, resp *http.Response) bool {
	return k.content && resp.StatusCode == http.StatusTemporaryRedirect && resp.Header.Get("ETag") != ""
}

// fromStore fetches content from where a redirect leads, with nothing of the request but its range:
// the address is all the right that it takes, and the token is nobody's business there. The reply
// has the ETag that the server gave it; that content never changes.
func (c *Client) fromStore(ctx context.Context, k *call, redirect *http.Response) (*http.Response, error) {
	letGo(redirect.Body)
	to, err := redirect.Location()
	if err != nil || to.Scheme != "https" && (to.Scheme != "http" || redirect.Request.URL.Scheme == "https") {
		return nil, newProxyError(redirect, nil)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, newProxyError(redirect, nil)
	}
	req.Header.Set("User-Agent", c.agent)
	if r := k.header.Get("Range"); r != "" {
		req.Header.Set("Range", r)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch from the store at %s: %w", to.Host, sortOut(ctx, err, nil))
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		return nil, newStoreError(resp)
	}
	resp.Header.Set("ETag", redirect.Header.Get("ETag"))
	return resp, nil
}

func newStoreError(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // a cut body is judged by what came
	letGo(resp.Body)
	var said struct{ Code string }
	_ = xml.NewDecoder(bytes.NewReader(body)).Decode(&said) // another form says nothing
	return &StoreError{Status: resp.StatusCode, Host: resp.Request.URL.Host, Code: excerpt([]byte(said.Code)), RetryAfter: retryAfter(resp.Header)}
}

// judgeStore: whatever it was, the next attempt asks the server first, and has a fresh address.
func judgeStore(e *StoreError) verdict {
	passes := e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
	return verdict{again: true, limited: !passes, wait: e.RetryAfter}
}
