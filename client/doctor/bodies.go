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

// announcedBytes is larger than any intended limit of a request body.
const announcedBytes = 10 << 30

// sentBytes is the size of the body that is really sent. It exceeds common limits and the size of
// an upload's part; some proxies enforce limits only on received bytes.
const sentBytes = 24 << 20

// bodySize checks that no proxy limits request bodies: it announces a huge body without sending it,
// and then sends a large one.
func (d *doctor) bodySize(ctx context.Context) Finding {
	status, server, err := d.announceBody(ctx, announcedBytes)
	if err != nil {
		return unknown("body size", err)
	}
	limited := Finding{
		Check: "body size", Level: Failure, Message: orUnknown(server) + " limits the size of a request's body (413)",
		ConfigLines: configLines("client_max_body_size 0;", "request_body { max_size 0 }  # remove the limit", "LimitRequestBody 0", "buffering.maxRequestBodyBytes: 0"),
	}
	if status == http.StatusRequestEntityTooLarge {
		return limited
	}
	a, err := d.probe(ctx, http.MethodPut, "echo", bytes.NewReader(make([]byte, sentBytes)), nil)
	switch {
	case err != nil:
		limited.Message = fmt.Sprintf("a body of %d MiB does not come through: %v", sentBytes>>20, err)
		return limited
	case a.code != http.StatusOK:
		limited.Message = fmt.Sprintf("a body of %d MiB does not come through: %s answers %d", sentBytes>>20, orUnknown(a.header.Get("Server")), a.code)
		return limited
	}
	return ok("body size", "nobody limits it")
}

// announceBody sends only the header of a PUT with the given Content-Length, and returns the status
// and Server header of the first reply. It closes the connection without sending the body.
func (d *doctor) announceBody(ctx context.Context, size int64) (status int, server string, err error) {
	conn, u, err := d.dial(ctx)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "PUT %s/api/v1/probe/echo HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		u.EscapedPath(), u.Host, d.Token, size)
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

// dial connects to the server, with TLS if needed, with a deadline of 30 s for everything. The URL
// is BaseURL, parsed. The caller closes the connection.
func (d *doctor) dial(ctx context.Context) (net.Conn, *url.URL, error) {
	u, err := url.Parse(d.BaseURL)
	if err != nil {
		return nil, nil, err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	const timeout = 30 * time.Second
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	dialer := &net.Dialer{}
	if u.Scheme == "https" {
		config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		if t, ok := d.HTTP.Transport.(*http.Transport); ok && t.TLSClientConfig != nil {
			config.RootCAs = t.TLSClientConfig.RootCAs
		}
		conn, err := (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", host)
		if err == nil {
			err = conn.SetDeadline(time.Now().Add(timeout))
		}
		return conn, u, err
	}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(timeout))
	}
	return conn, u, err
}

// haltTime is the pause in the middle of a haltingBody; long compared with network latency.
const haltTime = 1500 * time.Millisecond

// haltingBody is a request body that pauses for haltTime between its parts.
type haltingBody struct {
	parts [][]byte
	ctx   context.Context //nolint:containedctx // the context of the body's request
}

// Read returns the parts one after the other and waits haltTime between two. It fails with the
// context's error.
func (h *haltingBody) Read(p []byte) (int, error) {
	if len(h.parts) == 0 {
		return 0, io.EOF
	}
	if len(h.parts[0]) == 0 {
		h.parts = h.parts[1:]
		if len(h.parts) == 0 {
			return 0, io.EOF
		}
		select {
		case <-time.After(haltTime):
		case <-h.ctx.Done():
			return 0, h.ctx.Err()
		}
	}
	n := copy(p, h.parts[0])
	h.parts[0] = h.parts[0][n:]
	return n, nil
}

const haltedHalf = 256 << 10 // size of each part of a haltingBody; more than proxies buffer in memory

// echoHalted sends a body that pauses in the middle to the echo probe. It fails if not all bytes
// arrived.
func (d *doctor) echoHalted(ctx context.Context) (echoReply, error) {
	part := bytes.Repeat([]byte("x"), haltedHalf)
	s, err := d.echo(ctx, http.MethodPut, &haltingBody{[][]byte{part, bytes.Clone(part)}, ctx}, nil)
	if err == nil && s.Bytes != 2*haltedHalf {
		err = fmt.Errorf("%d of %d bytes have arrived", s.Bytes, 2*haltedHalf)
	}
	return s, err
}

// requestBuffering checks that proxies pass request bodies on as they arrive: the server must see
// the pause.
func (d *doctor) requestBuffering(ctx context.Context) Finding {
	s, err := d.echoHalted(ctx)
	if err != nil {
		return unknown("request buffering", err)
	}
	if time.Duration(s.SpanMS)*time.Millisecond < haltTime/2 {
		return Finding{
			Check: "request buffering", Level: Warning, Message: "a proxy keeps bodies back until they are whole: it writes every upload to its own disk first, and the server sees nothing of it meanwhile",
			ConfigLines: configLines("proxy_request_buffering off;", "(remove request_buffers)", "(mod_proxy does not, unless proxy-sendcl is set: remove SetEnv proxy-sendcl)", "(remove the middleware buffering)"),
		}
	}
	return ok("request buffering", "bodies are passed on as they come")
}

// chunked checks that a body of unknown length arrives.
func (d *doctor) chunked(ctx context.Context) Finding {
	s, err := d.echo(ctx, http.MethodPut, io.MultiReader(strings.NewReader("some"), strings.NewReader(" bytes")), nil)
	if err != nil || s.Bytes != int64(len("some bytes")) {
		return Finding{
			Check: "chunked bodies", Level: Failure, Message: fmt.Sprintf("a body of unknown length does not arrive (%v, %d bytes): macOS and others store empty files then", err, s.Bytes),
			ConfigLines: configLines("proxy_http_version 1.1; proxy_request_buffering off;", "(Caddy passes them on)", "(remove SetEnv proxy-sendcl; no FastCGI in between)", "(Traefik passes them on)"),
		}
	}
	return ok("chunked bodies", "they arrive")
}

// responseBuffering checks that proxies pass on server-sent events one by one. The finding is a
// warning if all arrive at once, and unknown if the request fails.
func (d *doctor) responseBuffering(ctx context.Context) Finding {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.BaseURL+"/api/v1/probe/stream", nil)
	if err != nil {
		return unknown("response buffering", err)
	}
	req.Header.Set("Authorization", "Bearer "+d.Token)
	resp, err := d.HTTP.Do(req)
	if err != nil {
		return unknown("response buffering", err)
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
	const apart = 500 * time.Millisecond // half of the time between the first and the last event
	switch {
	case lines.Err() != nil:
		return unknown("response buffering", lines.Err())
	case first.IsZero() || last.Sub(first) < apart:
		return Finding{
			Check: "response buffering", Level: Warning, Message: "a proxy keeps answers back: pages learn late of what has changed, and downloads fill its disk",
			ConfigLines: configLines("proxy_buffering off;", "reverse_proxy { flush_interval -1 }", "ProxyPass / http://127.0.0.1:8320/ flushpackets=on", "(remove the middleware buffering)"),
		}
	}
	return ok("response buffering", "answers and event streams are passed on as they come")
}

// slowReply checks that a reply that takes Options.SlowReply arrives.
func (d *doctor) slowReply(ctx context.Context) Finding {
	if d.SlowReply <= 0 {
		return Finding{Check: "time-outs", Level: Unknown, Message: "not looked at: it takes over a minute (--wait 70s)"}
	}
	began := time.Now()
	a, err := d.probe(ctx, http.MethodGet, fmt.Sprintf("slow?seconds=%d", int(d.SlowReply.Seconds())), nil, nil)
	if err == nil && a.code == http.StatusNoContent {
		return ok("time-outs", "an answer may take %s", d.SlowReply)
	}
	if err == nil {
		err = errors.New(a.status)
	}
	return Finding{
		Check: "time-outs", Level: Warning, Message: fmt.Sprintf("an answer that takes %s does not arrive; a proxy gave up after %s (%v)", d.SlowReply, time.Since(began).Round(time.Second), err),
		ConfigLines: configLines("proxy_read_timeout 300s; proxy_send_timeout 300s;", "transport http { response_header_timeout 300s }", "ProxyTimeout 300", "respondingTimeouts and forwardingTimeouts.responseHeaderTimeout: 300s"),
	}
}
