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

// StoreError is an error reply of the store to which the server redirected a download.
type StoreError struct {
	Status     int
	Host       string
	Code       string // S3 error code, such as "AccessDenied"; may be empty
	RetryAfter time.Duration
}

func (e *StoreError) Error() string {
	text := fmt.Sprintf("the store at %s, where the server keeps the content, answered %d", e.Host, e.Status)
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	return text
}

// isStoreRedirect reports whether the reply redirects a download to the store. Such a redirect has
// an ETag; redirects made by proxies have none and are not followed.
func isStoreRedirect(k *request, resp *http.Response) bool {
	return k.content && resp.StatusCode == http.StatusTemporaryRedirect && resp.Header.Get("ETag") != ""
}

// fetchFromStore follows a redirect to the store. It sends only the range, never the token: the
// signed address is sufficient. The returned reply has the redirect's ETag. A redirect from https
// to http is refused as a *ProxyError.
func (c *Client) fetchFromStore(ctx context.Context, k *request, redirect *http.Response) (*http.Response, error) {
	closeQuietly(redirect.Body)
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
		return nil, fmt.Errorf("fetch from the store at %s: %w", to.Host, transportError(ctx, err, nil))
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		return nil, newStoreError(resp)
	}
	resp.Header.Set("ETag", redirect.Header.Get("ETag"))
	return resp, nil
}

// newStoreError returns a StoreError for the store's error reply, whose body it closes. It is never
// nil.
func newStoreError(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // a truncated body is parsed as far as it arrived
	closeQuietly(resp.Body)
	var said struct{ Code string }
	_ = xml.NewDecoder(bytes.NewReader(body)).Decode(&said) // not XML: no code
	return &StoreError{Status: resp.StatusCode, Host: resp.Request.URL.Host, Code: excerpt([]byte(said.Code)), RetryAfter: retryAfter(resp.Header)}
}

// classifyStoreError always allows a retry, because the next attempt gets a fresh address from the
// server. Retries are limited unless the store is overloaded or failing.
func classifyStoreError(e *StoreError) retryDecision {
	passes := e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
	return retryDecision{retry: true, limited: !passes, delay: e.RetryAfter}
}
