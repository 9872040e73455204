// Package tus lets other people's clients upload to the real binary: tus-js-client, Uppy in a
// browser, tuspy, curl. It compares the server with @tus/server, request by request, and holds it
// to the text of the protocol. It has tests only.
//
// Clients and their versions are in package.json; "npm ci" in this directory fetches them. What the
// machine lacks is skipped with its reason, or fails where SMARTDRIVE_TEST_REQUIRE lists it: node,
// chromium, tuspy, curl.
package tus

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	password = process.Password
	mib      = 1 << 20
)

// drive is a running server with its first user logged in.
type drive struct {
	t      testing.TB
	data   string
	listen string
	flags  []string
	log    *journal
	server *process.Server
	url    string
	token  string
}

// journal is what a server says, for tests that fail.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text.String()
	return text[max(0, len(text)-2500):]
}

func newDrive(t testing.TB, flags ...string) *drive {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGKILL on Windows")
	}
	d := &drive{t: t, data: filepath.Join(t.TempDir(), "data"), listen: process.Address(t), flags: flags, log: &journal{}}
	t.Cleanup(func() {
		if d.server != nil {
			d.server.Kill()
		}
		if t.Failed() {
			t.Logf("the server's messages:\n%s", d.log.tail())
		}
	})
	d.start()
	d.token = d.login("admin")
	return d
}

// start starts the server, on the same port every time.
func (d *drive) start() {
	d.t.Helper()
	server, err := process.Start(process.Options{
		Binary: process.Binary(d.t), Data: d.data, Listen: d.listen, Args: d.flags, Log: d.log,
		Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + password},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.server = server
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*time.Minute)
	defer cancel()
	if d.url, err = server.Ready(ctx); err != nil {
		d.t.Fatal(err)
	}
}

func (d *drive) login(name string) string {
	d.t.Helper()
	var session struct{ Token string }
	d.api(http.MethodPost, "/sessions", map[string]string{"name": name, "password": password}, &session)
	return session.Token
}

// user makes a user and returns the drive as that one sees it.
func (d *drive) user(name string, quota int64) *drive {
	d.t.Helper()
	d.api(http.MethodPost, "/admin/users", map[string]any{"name": name, "password": password, "total": quota}, nil)
	u := *d
	u.token = d.login(name)
	return &u
}

// api makes a request of the native API that must succeed.
func (d *drive) api(method, path string, in, out any) {
	d.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		d.t.Fatal(err)
	}
	if in == nil {
		body = nil
	}
	a := d.ask(method, "/api/v1"+path, header{"Content-Type": "application/json"}, bytes.NewReader(body))
	if a.status >= 300 {
		d.t.Fatalf("%s %s: %s", method, path, a)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(a.body), out); err != nil {
			d.t.Fatal(err)
		}
	}
}

type header map[string]string

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// ask sends a request with the token, as it is: a header that is empty is not sent.
func (d *drive) ask(method, path string, h header, body io.Reader) answer {
	d.t.Helper()
	a, err := d.try(d.t.Context(), method, path, h, body)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (d *drive) try(ctx context.Context, method, path string, h header, body io.Reader) (answer, error) {
	if !strings.HasPrefix(path, "http://") {
		path = d.url + path
	}
	req, err := http.NewRequestWithContext(ctx, method, path, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	for name, value := range h {
		req.Header.Del(name)
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := direct.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// direct follows no redirects.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// with is the headers of a tus request, and more.
func with(more ...string) header {
	h := header{"Tus-Resumable": "1.0.0"}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// chunk is with for a PATCH at an offset.
func chunk(offset int, more ...string) header {
	return with(append([]string{"Content-Type", "application/offset+octet-stream", "Upload-Offset", fmt.Sprint(offset)}, more...)...)
}

// metadata encodes pairs of a key and a value.
func metadata(pairs ...string) string {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, pairs[i]+" "+base64.StdEncoding.EncodeToString([]byte(pairs[i+1])))
	}
	return strings.Join(list, ",")
}

// create makes an upload and returns its address.
func (d *drive) create(h header) string {
	d.t.Helper()
	a := d.ask(http.MethodPost, "/tus/", h, nil)
	if a.status != http.StatusCreated || a.header.Get("Location") == "" {
		d.t.Fatalf("create %v: %s", h, a)
	}
	return a.header.Get("Location")
}

// patch adds bytes and wants a status and, unless it is negative, an offset.
func (d *drive) patch(at string, h header, body []byte, status, offset int) answer {
	d.t.Helper()
	a := d.ask(http.MethodPatch, at, h, bytes.NewReader(body))
	if a.status != status || offset >= 0 && a.header.Get("Upload-Offset") != fmt.Sprint(offset) {
		d.t.Fatalf("PATCH %v of %d bytes: %s, offset %s; want %d, offset %d", h, len(body), a, a.header.Get("Upload-Offset"), status, offset)
	}
	return a
}

// offset is what HEAD says.
func (d *drive) offset(at string) string {
	d.t.Helper()
	a := d.ask(http.MethodHead, at, with(), nil)
	if a.status != http.StatusOK {
		d.t.Fatalf("HEAD %s: %s", at, a)
	}
	return a.header.Get("Upload-Offset")
}

// holds fails unless there is a file with this content.
func (d *drive) holds(path string, want []byte) {
	d.t.Helper()
	if got := d.content(path); !bytes.Equal([]byte(got), want) {
		d.t.Errorf("%s has %d bytes that are not the %d that were sent", path, len(got), len(want))
	}
}

func (d *drive) content(path string) string {
	d.t.Helper()
	var node struct{ ID string }
	d.api(http.MethodGet, "/nodes?path="+path, nil, &node)
	return d.ask(http.MethodGet, "/api/v1/nodes/"+node.ID+"/content", nil, nil).body
}

// balance is the ledger of a user, as the administrator sees it: finished, unfinished, reserved.
func (d *drive) balance(of *drive) [3]int64 {
	d.t.Helper()
	var me struct{ User struct{ ID string } }
	of.api(http.MethodGet, "/me", nil, &me)
	var sums struct{ Finished, Unfinished, Reserved int64 }
	d.api(http.MethodGet, "/admin/users/"+me.User.ID+"/ledger", nil, &sums)
	return [3]int64{sums.Finished, sums.Unfinished, sums.Reserved}
}

// noise returns bytes that nobody else has.
func noise(n int, seed uint64) []byte {
	buf := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 7})
	_, _ = r.Read(buf)
	return buf
}

// needs skips the test where a program is not there.
func needs(t testing.TB, name servicetest.Service, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		servicetest.Missing(t, name, program+" is not on PATH")
	}
	return path
}

// node is Node.js with the packages of this directory.
func node(t testing.TB) string {
	t.Helper()
	path := needs(t, "node", "node")
	if _, err := os.Stat("node_modules/tus-js-client"); err != nil {
		servicetest.Missing(t, "node", `the clients are not here: "npm ci" in test/tus fetches them`)
	}
	return path
}

// local is an address at the server itself, where it believes to be reached at another.
func (d *drive) local(path string) string { return "http://" + d.listen + path }
