package app

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/testkit/depth"
)

// TestServingContinuesAfterEveryEnd sends refused, cut and prematurely ended requests to every
// route of every head, through a proxy that uses one connection for all clients, and then sends a
// request as another user. That request must get its own correct reply.
func TestServingContinuesAfterEveryEnd(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	addresses := p.addresses(t)
	addresses["/api/v1/batch"] = slices.Repeat([]string{http.MethodPost}, 20) // it answers while it reads: what it leaves is a matter of chance
	for _, at := range slices.Sorted(maps.Keys(addresses)) {
		for _, method := range addresses[at] {
			for name, send := range endings {
				p.send(t, send(ending{method: method, path: at, token: p.ann}))
				if status := p.bob(t); status != http.StatusOK {
					t.Errorf("after %s %s, %s, another user is answered %d", method, at, name, status)
				}
			}
		}
	}
}

// An ending is a request that does not take its usual way.
type ending struct {
	method, path, token, typ string
	body                     string
	length                   int // declared; 0: that of the body; -1: it comes in chunks
}

const unread = 200 << 10 // bytes, which a server reads to keep a connection

// endings make them of an address.
var endings = map[string]func(e ending) ending{
	"without a login": func(e ending) ending {
		e.token, e.body = "", strings.Repeat("z", unread)
		return e
	},
	"with a body that is none": func(e ending) ending {
		e.body = strings.Repeat("z", unread)
		return e
	},
	"with a batch that breaks": func(e ending) ending {
		e.typ = "application/vnd.smartdrive.batch"
		e.body = `{"n":1,"op":"put","path":"/a","size":1}` + "\nxthis is no line\n" + strings.Repeat("z", unread)
		return e
	},
	"in chunks": func(e ending) ending {
		e.body, e.length = strings.Repeat("z", 1<<10), -1
		return e
	},
	"cut in its body": func(e ending) ending {
		e.body, e.length = strings.Repeat("z", 1<<10), unread
		return e
	},
	"with a body that is too large": func(e ending) ending {
		e.body, e.length = "{", 1<<40
		return e
	},
	"with nothing": func(e ending) ending { return e },
}

// pooled is a whole installation behind a proxy with one connection.
type pooled struct {
	proxy *httptest.Server
	host  string
	ann   string // her token
	asBob *http.Request
}

func newPooled(t *testing.T) *pooled {
	t.Helper()
	a, err := Open(t.Context(), testConfig(t, "--min-free", "0", "--resumable-draft", "on"), silent)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := a.server(t.Context(), a.api("test", server.NewLimiter[drive.UserID](32)), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	over := make(chan error, 1)
	go func() { over <- srv.Run(ctx) }()
	control, done := a.serveInProcess(t.Context())
	to, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	pool := &http.Transport{MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, DisableCompression: true}
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorLog: log.New(io.Discard, "", 0), FlushInterval: -1, Transport: pool,
	}
	p := &pooled{proxy: httptest.NewServer(proxy)}
	p.host = strings.TrimPrefix(p.proxy.URL, "http://")
	t.Cleanup(func() {
		p.proxy.Close()
		pool.CloseIdleConnections()
		stop()
		if err := errors.Join(<-over, done()); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"ann", "bob"} {
		if _, err := ask(t, control, http.MethodPost, "/api/v1/admin/users", map[string]any{"name": name, "password": "correct horse"}); err != nil {
			t.Fatal(err)
		}
	}
	p.ann = loginAs(t, p.proxy, "ann")
	if p.asBob, err = http.NewRequestWithContext(t.Context(), http.MethodGet, p.proxy.URL+"/api/v1/me", nil); err != nil {
		t.Fatal(err)
	}
	p.asBob.Header.Set("Authorization", "Bearer "+loginAs(t, p.proxy, "bob"))
	return p
}

// bob requests bob's own account and returns the status.
func (p *pooled) bob(t *testing.T) (status int) {
	t.Helper()
	resp, err := p.proxy.Client().Do(p.asBob)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// send sends a request and reads the beginning of its answer. Then its connection to the proxy
// ends, in the middle of whatever still comes or goes.
func (p *pooled) send(t *testing.T, e ending) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n", e.method, e.path, cmp.Or(e.typ, "application/json"))
	if e.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", e.token)
	}
	switch {
	case e.length < 0:
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(e.body), e.body)
	case e.body == "":
		b.WriteString("\r\n")
	default:
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", max(e.length, len(e.body)), e.body)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return // it was refused before
	}
	if e.length > len(e.body) {
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: e.method})
	if err != nil {
		return
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	}
}

// addresses returns the routes of all heads with their methods.
func (p *pooled) addresses(t *testing.T) map[string][]string {
	t.Helper()
	resp, err := p.proxy.Client().Get(p.proxy.URL + "/api/openapi.json") //nolint:noctx // a test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	values := strings.NewReplacer("{path}", "x/y", "{n}", "0", "{id}", "root", "{v}", "x", "{key}", "park/x", "{token}", "x", "{principal}", "x")
	for path, methods := range doc.Paths {
		for method := range methods {
			all[values.Replace(path)] = append(all[values.Replace(path)], strings.ToUpper(method))
		}
	}
	dav := []string{"GET", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "PROPFIND", "PROPPATCH", "LOCK", "UNLOCK", "REPORT", "OPTIONS"}
	plain := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	for methods, paths := range map[*[]string][]string{
		&dav: {
			"/dav/", "/dav/x", "/remote.php/webdav/x", "/remote.php/dav/files/ann/x", "/remote.php/dav/uploads/ann/u/1", "/remote.php/dav/uploads/ann/u/.file",
			"/remote.php/dav/bulk", "/remote.php/dav/trashbin/ann/trash/x", "/remote.php/dav/versions/ann/versions/1/2", "/remote.php/dav/nothing",
		},
		&plain: {
			"/tus/", "/tus/x", "/api/v1/probe/echo", "/api/v1/probe/stream", "/api/v1/probe/bytes", "/api/v1/probe/disk", "/status.php", "/index.php/login/v2", "/index.php/nothing", "/login/v2", "/login/v2/poll",
			"/ocs/v2.php/cloud/user", "/ocs/v2.php/apps/files_sharing/api/v1/shares", "/csp-report", "/healthz", "/metrics", "/problems/quota", "/", "/nothing", "/a//b", "/api/v1/nothing",
			"/resumable/x",
		},
	} {
		for _, path := range paths {
			all[path] = *methods
		}
	}
	if depth.Pick(0, 1, 1) == 0 { // one in eight
		i := 0
		maps.DeleteFunc(all, func(_ string, _ []string) bool { i++; return i%8 != 0 })
	}
	return all
}
