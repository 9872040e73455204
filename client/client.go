package client

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options configure New. Only BaseURL is required.
type Options struct {
	BaseURL   string // such as https://drive.example.org or https://example.org/drive
	Token     string // of a session or an access token; empty for endpoints without authentication
	UserAgent string // default "smartdrive-client"

	// HTTPClient replaces the default client (HTTP/1.1, 16 connections). If its CheckRedirect
	// is nil, New disables redirects, so that the token is never sent to another host. Content
	// in the store is fetched without the token.
	HTTPClient *http.Client

	// RetryFor bounds how long a call retries without success; default 1 minute. Uploader and
	// Downloader have their own limits.
	RetryFor time.Duration
	// MinBackoff is the first backoff between two attempts, default 250 ms. It doubles up to
	// MaxBackoff, default 15 s.
	MinBackoff, MaxBackoff time.Duration
	// OnRetry is called before each retry of a call that has no Progress. It may be called from
	// several goroutines at once.
	OnRetry func(err error, pause time.Duration)
	// StallTimeout aborts an attempt whose body has not moved for that long; default 1 minute.
	StallTimeout time.Duration
}

// Client calls one server with one token. It is safe for concurrent use.
type Client struct {
	base  string // without a trailing slash
	token string
	agent string
	http  *http.Client
	opt   Options
}

// Limits of the default connection pool.
const (
	maxConns      = 16              // connections per host
	headerTimeout = 2 * time.Minute // from the last byte of a request to the reply; the server answers a seal within 10 s
)

// New returns a client. It does not connect. It fails if BaseURL is not an http or https address.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(o.BaseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("server address %q: want http://HOST or https://HOST, with a path if it has one", o.BaseURL)
	}
	o.RetryFor = orDefault(o.RetryFor, time.Minute)
	o.MinBackoff = orDefault(o.MinBackoff, 250*time.Millisecond)
	o.MaxBackoff = orDefault(o.MaxBackoff, 15*time.Second)
	o.StallTimeout = orDefault(o.StallTimeout, time.Minute)
	c := &Client{base: base.String(), token: o.Token, agent: orDefault(o.UserAgent, "smartdrive-client"), http: o.HTTPClient, opt: o}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	if c.http.CheckRedirect == nil {
		careful := *c.http
		careful.CheckRedirect = refuseRedirect
		c.http = &careful
	}
	return c, nil
}

// BaseURL returns the server's address without a trailing slash.
func (c *Client) BaseURL() string { return c.base }

// Token returns the token that the client sends; empty if it sends none.
func (c *Client) Token() string { return c.token }

// WithToken returns a copy of the client that sends another token. Both share their connections.
func (c *Client) WithToken(token string) *Client {
	d := *c
	d.token = token
	return &d
}

// Close closes idle connections and does not wait for running calls. The client remains usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// newTransport returns the default HTTP transport: HTTP/1.1, at most maxConns connections, no
// compression.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // one request per connection: avoids head-of-line blocking between parts
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		Protocols:             protocols,
		MaxIdleConns:          maxConns,
		MaxIdleConnsPerHost:   maxConns,
		MaxConnsPerHost:       maxConns,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: headerTimeout,
		ExpectContinueTimeout: 2 * time.Second,
		DisableCompression:    true,     // ranges and digests refer to the uncompressed bytes
		WriteBufferSize:       64 << 10, // at 4 KiB/s, the slowest rate the server accepts, a buffer drains every 16 s, well within StallTimeout
		ReadBufferSize:        64 << 10,
	}
}

// refuseRedirect makes the HTTP client return a redirect as the reply. The caller reports it as a
// wrong server address.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// orDefault returns v, or def if v is the zero value.
func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
