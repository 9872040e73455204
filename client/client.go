package client

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options says where the server is and how to speak with it. Only BaseURL is needed.
type Options struct {
	BaseURL   string // such as https://drive.example.org or https://example.org/drive
	Token     string // a session's or an access token; empty for what needs none
	UserAgent string // default "smartdrive-client"

	// HTTPClient replaces the default one: HTTP/1.1, 16 kept connections. Unless it has a
	// CheckRedirect of its own it follows no redirects, for a token must not travel; content that
	// the server keeps at a store is fetched there without it.
	HTTPClient *http.Client

	// GiveUp is how long a call goes on trying while nothing succeeds; default 1 minute. Transfers
	// have their own.
	GiveUp time.Duration
	// Pause is the first pause between two attempts, default 250 ms; it doubles up to MaxPause,
	// default 15 s.
	Pause, MaxPause time.Duration
	// Waiting is told of attempts that failed and will be repeated, by calls that have no Progress;
	// it may be called from several goroutines.
	Waiting func(err error, pause time.Duration)
	// Stall cuts a body of which nothing has moved for so long; default 1 minute.
	Stall time.Duration
}

// Client speaks with one server as one user. It is safe for concurrent use.
type Client struct {
	base  string // without a trailing slash
	token string
	agent string
	http  *http.Client
	opt   Options
}

// Limits of the default connection pool.
const (
	maxConns      = 16              // kept connections; what 10,000 small files go over
	headerTimeout = 2 * time.Minute // from the last byte of a request to the reply; a seal answers within 10 s
)

// New returns a client. It does not connect.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(o.BaseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("server address %q: want http://HOST or https://HOST, with a path if it has one", o.BaseURL)
	}
	o.GiveUp = orElse(o.GiveUp, time.Minute)
	o.Pause = orElse(o.Pause, 250*time.Millisecond)
	o.MaxPause = orElse(o.MaxPause, 15*time.Second)
	o.Stall = orElse(o.Stall, time.Minute)
	c := &Client{base: base.String(), token: o.Token, agent: orElse(o.UserAgent, "smartdrive-client"), http: o.HTTPClient, opt: o}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	if c.http.CheckRedirect == nil {
		careful := *c.http
		careful.CheckRedirect = stayHere
		c.http = &careful
	}
	return c, nil
}

// BaseURL returns the address of the server, without a trailing slash.
func (c *Client) BaseURL() string { return c.base }

// Token returns the token the client was made with.
func (c *Client) Token() string { return c.token }

// WithToken returns a client of the same server, sharing connections, that acts under another
// token.
func (c *Client) WithToken(token string) *Client {
	d := *c
	d.token = token
	return &d
}

// Close gives the idle connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // one stream a connection: parts do not wait for each other
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
		DisableCompression:    true,     // Range and digests are about the bytes as they are
		WriteBufferSize:       64 << 10, // at 4 KiB/s, the slowest that the server bears, it moves every 16 s: see Stall
		ReadBufferSize:        64 << 10,
	}
}

// stayHere hands a redirect to the caller, who says in words that the address is another one.
func stayHere(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func orElse[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
