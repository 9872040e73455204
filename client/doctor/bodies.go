package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// hugeBody is more than any limit that somebody means.
const hugeBody = 10 << 30

// sentBody is how many bytes are sent after that: more than is commonly set as a limit, and than a
// chunk of an upload. There are proxies that count only what comes.
const sentBody = 24 << 20

// bodySize announces a huge body and looks whether anybody refuses it before a byte of it was sent,
// and then sends a large one.
func (x *examination) bodySize(ctx context.Context) Finding {
	status, server, err := x.announce(ctx, hugeBody)
	if err != nil {
		return failed("body size", err)
	}
	limited := Finding{
		Check: "body size", Level: Failure, Says: orUnknown(server) + " limits the size of a request's body (413)",
		Change: change("client_max_body_size 0;", "request_body { max_size 0 }  # remove the limit", "LimitRequestBody 0", "buffering.maxRequestBodyBytes: 0"),
	}
	if status == http.StatusRequestEntityTooLarge {
		return limited
	}
	a, err := x.ask(ctx, http.MethodPut, "echo", bytes.NewReader(make([]byte, sentBody)), nil)
	switch {
	case err != nil:
		limited.Says = fmt.Sprintf("a body of %d MiB does not come through: %v", sentBody>>20, err)
		return limited
	case a.code != http.StatusOK:
		limited.Says = fmt.Sprintf("a body of %d MiB does not come through: %s answers %d", sentBody>>20, orUnknown(a.header.Get("Server")), a.code)
		return limited
	}
	return ok("body size", "nobody limits it")
}

// announce sends only the header of a request, and returns the first status that comes back.
func (x *examination) announce(ctx context.Context, size int64) (status int, server string, err error) {
	conn, u, err := x.dial(ctx)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "PUT %s/api/v1/probe/echo HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		u.EscapedPath(), u.Host, x.Token, size)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Server"), nil
}

func (x *examination) dial(ctx context.Context) (net.Conn, *url.URL, error) {
	u, err := url.Parse(x.BaseURL)
	if err != nil {
		return nil, nil, err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	const patience = 30 * time.Second
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	dialer := &net.Dialer{}
	if u.Scheme == "https" {
		config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		if t, ok := x.HTTP.Transport.(*http.Transport); ok && t.TLSClientConfig != nil {
			config.RootCAs = t.TLSClientConfig.RootCAs
		}
		conn, err := (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", host)
		if err == nil {
			err = conn.SetDeadline(time.Now().Add(patience))
		}
		return conn, u, err
	}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(patience))
	}
	return conn, u, err
}

// pause is how long a body stands still in the middle: long beside what a network takes.
const pause = 1500 * time.Millisecond

// halting is a body that stands still in the middle.
type halting struct {
	parts [][]byte
	ctx   context.Context //nolint:containedctx // of one request, whose body it is
}

func (h *halting) Read(p []byte) (int, error) {
	if len(h.parts) == 0 {
		return 0, io.EOF
	}
	if len(h.parts[0]) == 0 {
		h.parts = h.parts[1:]
		if len(h.parts) == 0 {
			return 0, io.EOF
		}
		select {
		case <-time.After(pause):
		case <-h.ctx.Done():
			return 0, h.ctx.Err()
		}
	}
	n := copy(p, h.parts[0])
	h.parts[0] = h.parts[0][n:]
	return n, nil
}

const half = 256 << 10 // bytes: more than a proxy keeps in memory before it writes to its disk

func (x *examination) halted(ctx context.Context) (seen, error) {
	part := bytes.Repeat([]byte("x"), half)
	s, err := x.echo(ctx, http.MethodPut, &halting{[][]byte{part, bytes.Clone(part)}, ctx}, nil)
	if err == nil && s.Bytes != 2*half {
		err = fmt.Errorf("%d of %d bytes have arrived", s.Bytes, 2*half)
	}
	return s, err
}

func (x *examination) requestBuffering(ctx context.Context) Finding {
	s, err := x.halted(ctx)
	if err != nil {
		return failed("request buffering", err)
	}
	if time.Duration(s.SpanMS)*time.Millisecond < pause/2 {
		return Finding{
			Check: "request buffering", Level: Warning, Says: "a proxy keeps bodies back until they are whole: it writes every upload to its own disk first, and the server sees nothing of it meanwhile",
			Change: change("proxy_request_buffering off;", "(remove request_buffers)", "(mod_proxy does not, unless proxy-sendcl is set: remove SetEnv proxy-sendcl)", "(remove the middleware buffering)"),
		}
	}
	return ok("request buffering", "bodies are passed on as they come")
}

func (x *examination) chunked(ctx context.Context) Finding {
	s, err := x.echo(ctx, http.MethodPut, io.MultiReader(strings.NewReader("some"), strings.NewReader(" bytes")), nil)
	if err != nil || s.Bytes != int64(len("some bytes")) {
		return Finding{
			Check: "chunked bodies", Level: Failure, Says: fmt.Sprintf("a body of unknown length does not arrive (%v, %d bytes): macOS and others store empty files then", err, s.Bytes),
			Change: change("proxy_http_version 1.1; proxy_request_buffering off;", "(Caddy passes them on)", "(remove SetEnv proxy-sendcl; no FastCGI in between)", "(Traefik passes them on)"),
		}
	}
	return ok("chunked bodies", "they arrive")
}

func (x *examination) responseBuffering(ctx context.Context) Finding {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.BaseURL+"/api/v1/probe/stream", nil)
	if err != nil {
		return failed("response buffering", err)
	}
	req.Header.Set("Authorization", "Bearer "+x.Token)
	resp, err := x.HTTP.Do(req)
	if err != nil {
		return failed("response buffering", err)
	}
	defer resp.Body.Close()
	var first, last time.Time
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			if last = time.Now(); first.IsZero() {
				first = last
			}
		}
	}
	const apart = 500 * time.Millisecond // between the first event and the last there are twice as many
	switch {
	case lines.Err() != nil:
		return failed("response buffering", lines.Err())
	case first.IsZero() || last.Sub(first) < apart:
		return Finding{
			Check: "response buffering", Level: Warning, Says: "a proxy keeps answers back: pages learn late of what has changed, and downloads fill its disk",
			Change: change("proxy_buffering off;", "reverse_proxy { flush_interval -1 }", "ProxyPass / http://127.0.0.1:8320/ flushpackets=on", "(remove the middleware buffering)"),
		}
	}
	return ok("response buffering", "answers and event streams are passed on as they come")
}

// late waits for an answer that comes late.
func (x *examination) late(ctx context.Context) Finding {
	if x.Wait <= 0 {
		return Finding{Check: "time-outs", Level: Unknown, Says: "not looked at: it takes over a minute (--wait 70s)"}
	}
	began := time.Now()
	a, err := x.ask(ctx, http.MethodGet, fmt.Sprintf("slow?seconds=%d", int(x.Wait.Seconds())), nil, nil)
	if err == nil && a.code == http.StatusNoContent {
		return ok("time-outs", "an answer may take %s", x.Wait)
	}
	if err == nil {
		err = errors.New(a.status)
	}
	return Finding{
		Check: "time-outs", Level: Warning, Says: fmt.Sprintf("an answer that takes %s does not arrive; a proxy gave up after %s (%v)", x.Wait, time.Since(began).Round(time.Second), err),
		Change: change("proxy_read_timeout 300s; proxy_send_timeout 300s;", "transport http { response_header_timeout 300s }", "ProxyTimeout 300", "respondingTimeouts and forwardingTimeouts.responseHeaderTimeout: 300s"),
	}
}
