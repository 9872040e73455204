// Package doctor looks at a SmartDrive from outside, through whatever stands before it, and says
// what is wrong there and which line of which proxy to change.
package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options say what is looked at.
type Options struct {
	BaseURL string // such as https://drive.example.org or https://example.org/drive
	Token   string // an access token of anybody
	// Wait is how long an answer is waited for that the server gives late on purpose, to see
	// whether a proxy gives up before: at most 90 s. Zero: that is not looked at.
	Wait time.Duration
	// HTTP makes the requests. Default: a client with HTTP/1.1.
	HTTP *http.Client
	Now  func() time.Time // default time.Now
}

// Level says how bad something is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // some clients, or some files, suffer from it
	Failure Level = "failure"
	Unknown Level = "unknown" // it could not be looked at
)

// Finding is what came of one check.
type Finding struct {
	Check  string            `json:"check"`
	Level  Level             `json:"level"`
	Says   string            `json:"says"`
	Change map[string]string `json:"change,omitempty"` // the line to change, by proxy
}

// Run makes all checks, one after the other but for the slow one.
func Run(ctx context.Context, o Options) []Finding {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		o.HTTP = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, Protocols: protocols, DisableCompression: true}}
	}
	careful := *o.HTTP
	careful.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &careful
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	x := &examination{Options: o}
	reached := x.reach(ctx)
	if reached.Level == Failure {
		return []Finding{reached}
	}
	late := make(chan Finding, 1)
	go func() { late <- x.late(ctx) }()
	all := []Finding{reached}
	for _, check := range []func(context.Context) Finding{
		x.tls, x.hsts, x.address, x.clock, x.bodySize, x.requestBuffering, x.chunked, x.responseBuffering, x.methods, x.headers, x.ranges, x.paths, x.login,
	} {
		all = append(all, check(ctx))
	}
	return append(all, <-late)
}

// examination is one run.
type examination struct {
	Options

	first http.Header // of the first answer
	state *tls.ConnectionState
	seen  seen // of the first request
}

// seen is what the server says of a request.
type seen struct {
	Method  string    `json:"method"`
	Headers []string  `json:"headers"`
	Host    string    `json:"host"`
	Scheme  string    `json:"scheme"`
	Client  string    `json:"client"`
	Bytes   int64     `json:"bytes"`
	Chunked bool      `json:"chunked"`
	SpanMS  int64     `json:"span_ms"`
	Now     time.Time `json:"now"`

	answer answer
}

func ok(check, says string, args ...any) Finding {
	return Finding{Check: check, Level: OK, Says: fmt.Sprintf(says, args...)}
}

func failed(check string, err error) Finding {
	return Finding{Check: check, Level: Unknown, Says: "could not be looked at: " + err.Error()}
}

// answer is what came back of a request.
type answer struct {
	code   int
	status string
	header http.Header
	state  *tls.ConnectionState
	body   []byte
}

// ask sends a request to a probe.
func (x *examination) ask(ctx context.Context, method, path string, body io.Reader, header map[string]string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, x.BaseURL+"/api/v1/probe/"+path, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+x.Token)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := x.HTTP.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	const most = 1 << 20 // bytes: far more than a probe says
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return answer{resp.StatusCode, resp.Status, resp.Header, resp.TLS, raw}, err
}

// echo is ask of the echo: what the server has seen.
func (x *examination) echo(ctx context.Context, method string, body io.Reader, header map[string]string) (s seen, err error) {
	a, err := x.ask(ctx, method, "echo", body, header)
	if err != nil {
		return s, err
	}
	s.answer = a
	if a.code != http.StatusOK {
		return s, fmt.Errorf("%s answered %s", orUnknown(a.header.Get("Server")), a.status)
	}
	return s, json.Unmarshal(a.body, &s)
}

func orUnknown(server string) string {
	if server == "" {
		return "something"
	}
	return server
}

func (x *examination) reach(ctx context.Context) Finding {
	s, err := x.echo(ctx, http.MethodGet, nil, nil)
	switch {
	case s.answer.code == http.StatusUnauthorized:
		return Finding{
			Check: "reach", Level: Failure,
			Says:   "the server does not take the token: log in, or give another --token. If the token is right, a proxy drops the header Authorization",
			Change: change("", "", "CGIPassAuth On  # and no AuthType of Apache's own before the drive", ""),
		}
	case s.answer.code != 0 && err != nil:
		return Finding{Check: "reach", Level: Failure, Says: err.Error() + ": is the address right, does the proxy point to SmartDrive, and is SmartDrive of this version?"}
	case err != nil:
		return Finding{Check: "reach", Level: Failure, Says: err.Error()}
	}
	x.seen, x.first, x.state = s, s.answer.header, s.answer.state
	via := ""
	if server := s.answer.header.Get("Server"); server != "" {
		via = " through " + server
	}
	return ok("reach", "the server answers at %s%s", x.BaseURL, via)
}

func (x *examination) tls(context.Context) Finding {
	if x.state == nil {
		return Finding{Check: "tls", Level: Warning, Says: "the address is not encrypted (http): passwords and files can be read on the way, and some clients refuse it"}
	}
	left := x.state.PeerCertificates[0].NotAfter.Sub(x.Now())
	switch {
	case x.state.Version < tls.VersionTLS12:
		return Finding{
			Check: "tls", Level: Warning, Says: "the connection uses " + tls.VersionName(x.state.Version),
			Change: change("ssl_protocols TLSv1.2 TLSv1.3;", "", "SSLProtocol -all +TLSv1.2 +TLSv1.3", "minVersion: VersionTLS12"),
		}
	case left < 14*24*time.Hour:
		return Finding{Check: "tls", Level: Warning, Says: fmt.Sprintf("the certificate ends in %d days", int(left.Hours()/24))}
	}
	return ok("tls", "%s, the certificate is good for %d days", tls.VersionName(x.state.Version), int(left.Hours()/24))
}

func (x *examination) hsts(context.Context) Finding {
	if x.state != nil && x.first.Get("Strict-Transport-Security") == "" {
		return Finding{
			Check: "hsts", Level: Warning, Says: "Strict-Transport-Security is not sent: a browser may be led to http",
			Change: change(`add_header Strict-Transport-Security "max-age=31536000" always;`, `header Strict-Transport-Security "max-age=31536000"`,
				`Header always set Strict-Transport-Security "max-age=31536000"`, "headers.stsSeconds: 31536000"),
		}
	}
	return ok("hsts", "as it should be")
}

// address checks that the server knows how people reach it.
func (x *examination) address(context.Context) Finding {
	u, err := url.Parse(x.BaseURL)
	if err != nil {
		return failed("address", err)
	}
	if x.seen.Scheme == u.Scheme && strings.EqualFold(x.seen.Host, u.Host) {
		return ok("address", "the server takes its address for %s://%s, and the client for %s", x.seen.Scheme, x.seen.Host, x.seen.Client)
	}
	return Finding{
		Check: "address", Level: Warning,
		Says: fmt.Sprintf("the server takes its address for %s://%s: give it --base-url %s and --trusted-proxies with the proxy's address, and let the proxy say who asks", x.seen.Scheme, x.seen.Host, x.BaseURL),
		Change: change("proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
			"(Caddy does so by itself)", `ProxyPreserveHost On  and  RequestHeader set X-Forwarded-Proto "https"`, "(Traefik does so by itself)"),
	}
}

func (x *examination) clock(context.Context) Finding {
	off := x.Now().Sub(x.seen.Now).Round(time.Second)
	if off.Abs() > 2*time.Minute {
		return Finding{Check: "clock", Level: Warning, Says: fmt.Sprintf("the clocks of this computer and the server differ by %s: signed links and logins by time fail", off.Abs())}
	}
	return ok("clock", "the clocks agree")
}

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

func (x *examination) methods(ctx context.Context) Finding {
	var lost []string
	for _, method := range []string{"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "PATCH", "DELETE", "PUT"} {
		if s, err := x.echo(ctx, method, nil, nil); err != nil || s.Method != method {
			lost = append(lost, method)
		}
	}
	if len(lost) > 0 {
		return Finding{
			Check: "methods", Level: Failure, Says: "these methods do not arrive: " + strings.Join(lost, ", ") + ". WebDAV and the apps need them",
			Change: change("(remove limit_except and dav_methods from the location)", "(remove matchers of method)", "(remove <Limit>, <LimitExcept>, AllowMethods and Dav On)", "(remove Method() from the rule)"),
		}
	}
	return ok("methods", "those of WebDAV arrive")
}

func (x *examination) headers(ctx context.Context) Finding {
	sent := map[string]string{
		"Depth": "1", "Destination": x.BaseURL + "/dav/x", "Overwrite": "T", "If": "(<urn:x>)", "If-Match": `"x"`, "X-OC-Mtime": "1", "OC-Total-Length": "1",
		"Upload-Offset": "0", "Tus-Resumable": "1.0.0", "Content-Digest": "sha-256=:eA==:", "Idempotency-Key": "doctor",
	}
	s, err := x.echo(ctx, http.MethodPut, strings.NewReader("x"), sent)
	if err != nil {
		return failed("headers", err)
	}
	var lost []string
	for name := range sent {
		if !slices.ContainsFunc(s.Headers, func(have string) bool { return strings.EqualFold(have, name) }) {
			lost = append(lost, name)
		}
	}
	if slices.Sort(lost); len(lost) > 0 {
		return Finding{
			Check: "headers", Level: Failure, Says: "these headers do not arrive: " + strings.Join(lost, ", "),
			Change: change("proxy_pass_request_headers on;  # and no proxy_set_header NAME \"\"", "(remove header_up -NAME)", "(remove RequestHeader unset NAME)", "(remove customRequestHeaders with empty values)"),
		}
	}
	return ok("headers", "those of the protocols arrive")
}

func (x *examination) ranges(ctx context.Context) Finding {
	a, err := x.ask(ctx, http.MethodGet, "bytes", nil, map[string]string{"Range": "bytes=503-506"})
	if err != nil {
		return failed("ranges", err)
	}
	if a.code != http.StatusPartialContent || string(a.body) != "3456" {
		return Finding{
			Check: "ranges", Level: Failure, Says: fmt.Sprintf("a part of a file cannot be had (%s, %d bytes): downloads do not go on, videos do not jump", a.status, len(a.body)),
			Change: change("proxy_force_ranges off; proxy_cache off;", "", "(remove RequestHeader unset Range)", ""),
		}
	}
	return ok("ranges", "a part of a file can be had")
}

// paths checks that a proxy passes paths on as they were sent. The server refuses these two, in its
// own words.
func (x *examination) paths(ctx context.Context) Finding {
	var wrong []string
	for path, reason := range map[string]string{"echo%2Fx": "slash", "/echo": "empty"} {
		a, err := x.ask(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			return failed("paths", err)
		}
		var says struct{ Reason string }
		_ = json.Unmarshal(a.body, &says) // no answer of the server's: no reason
		if a.code != http.StatusBadRequest || says.Reason != reason {
			wrong = append(wrong, fmt.Sprintf("…/probe/%s (%s)", path, a.status))
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		return Finding{
			Check: "paths", Level: Warning, Says: "a proxy changes paths: " + strings.Join(wrong, ", ") + ". Names with special characters go wrong",
			Change: change("proxy_pass http://127.0.0.1:8320;  # without a path behind the address; merge_slashes off;", "(no rewrite, no path matchers)",
				"AllowEncodedSlashes NoDecode  and  ProxyPass / http://127.0.0.1:8320/ nocanon", "entryPoints.web.http.sanitizePath: false, and allow encoded slashes"),
		}
	}
	return ok("paths", "they are passed on as they were sent")
}

// login checks what clients without a token need: that the server's challenge arrives.
func (x *examination) login(ctx context.Context) Finding {
	req, err := http.NewRequestWithContext(ctx, "PROPFIND", x.BaseURL+"/dav/", nil)
	if err != nil {
		return failed("webdav", err)
	}
	resp, err := x.HTTP.Do(req)
	if err != nil {
		return failed("webdav", err)
	}
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return Finding{Check: "webdav", Level: Unknown, Says: "WebDAV is closed (--dav=off)"}
	case resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "":
		return Finding{Check: "webdav", Level: Warning, Says: "who comes without a password is not asked for one (" + resp.Status + "): clients of WebDAV cannot log in"}
	}
	return ok("webdav", "clients are asked for name and password. Windows' own client is deprecated by Microsoft: it takes files up to 4 GiB, and 50 MB unless its registry says more")
}

// change is the line to change, for each proxy that has one.
func change(nginx, caddy, apache, traefik string) map[string]string {
	all := map[string]string{}
	for name, line := range map[string]string{"nginx": nginx, "Caddy": caddy, "Apache": apache, "Traefik": traefik} {
		if line != "" {
			all[name] = line
		}
	}
	return all
}
