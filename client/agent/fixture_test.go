package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/client/clienttest"
	"example.org/smartdrive/internal/intake/bundle"
)

// fixture is a watched directory, a server, and an in-process transport between them, which works
// with virtual time.
type fixture struct {
	server *clienttest.Server
	wire   *handlerTransport
	dir    string
	opt    Options
}

// newFixture must be called outside of a synctest bubble, because the server's listener never
// becomes idle.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{server: clienttest.New(t), dir: t.TempDir()}
	w.server.EnableBatches(true)
	w.wire = &handlerTransport{to: w.server}
	w.server.RefuseItems(w.wire.refusesItem)
	api, err := client.New(client.Options{
		BaseURL: "http://drive.test", Token: clienttest.Token, HTTPClient: &http.Client{Transport: w.wire},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.opt = Options{Dir: w.dir, To: "/intake/acme", Client: api}
	return w
}

// handlerTransport carries requests to a handler in this process.
type handlerTransport struct {
	to      http.Handler
	offline atomic.Bool

	mu     sync.Mutex
	refuse func(*http.Request) (status int, code string) // 0: not
}

func (w *handlerTransport) set(refuse func(*http.Request) (int, string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = refuse
}

// refusesItem applies the configured refusals to a batch item as to a request of its own.
func (w *handlerTransport) refusesItem(path string) (status int, code string) {
	w.mu.Lock()
	refuse := w.refuse
	w.mu.Unlock()
	if refuse == nil {
		return 0, ""
	}
	return refuse(httptest.NewRequest(http.MethodPut, "/api/v1/files"+path, nil))
}

// RoundTrip implements http.RoundTripper.
func (w *handlerTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	if w.offline.Load() {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	defer func() {
		if cut := recover(); cut != nil {
			resp, err = nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
		}
	}()
	w.mu.Lock()
	refuse := w.refuse
	w.mu.Unlock()
	rec := httptest.NewRecorder()
	if refuse != nil {
		if status, code := refuse(r); status != 0 {
			rec.Header().Set("Content-Type", "application/problem+json")
			rec.WriteHeader(status)
			fmt.Fprintf(rec, `{"status":%d,"code":%q,"title":%q}`, status, code, code)
			return rec.Result(), nil
		}
	}
	w.to.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// drop writes a file as another program would have done, and long ago.
func (w *fixture) drop(t *testing.T, name, content string) {
	t.Helper()
	full := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// once runs an agent that crashes at the steps for which crash returns true, and returns the error
// of RunOnce.
func (w *fixture) once(t *testing.T, crash func(step string) bool) error {
	t.Helper()
	return w.with(t, crash, func(a *Agent) error { return a.RunOnce(t.Context()) })
}

func (w *fixture) with(t *testing.T, crash func(string) bool, do func(*Agent) error) error {
	t.Helper()
	a, err := Open(w.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if crash != nil {
		a.testHook = func(step string) error {
			if crash(step) {
				return fmt.Errorf("%w at %s", errCrash, step)
			}
			return nil
		}
	}
	return do(a)
}

// start runs an agent until stop.
func (w *fixture) start(t *testing.T) (stop func()) {
	t.Helper()
	a, err := Open(w.opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			t.Error(err)
		}
	}
}

// sealed returns what the sealed bundles on the server hold, by id, and checks them against their
// manifests.
func (w *fixture) sealed(t *testing.T) map[string]*bundle.Manifest {
	t.Helper()
	all := map[string]*bundle.Manifest{}
	for _, p := range w.server.Paths() {
		if path.Base(p) != string(bundle.MetaName) {
			continue
		}
		raw, versions := w.server.File(p)
		m, err := bundle.Decode(bytes.NewReader(raw))
		if err != nil || versions != 1 {
			t.Fatalf("%s, version %d: %v", p, versions, err)
		}
		if got, want := path.Dir(p), bundle.Folder(m.Source, m.ID).String(); got != want {
			t.Errorf("the bundle in %s says that it is %s", got, want)
		}
		for _, member := range m.Members {
			content, versions := w.server.File(path.Join(path.Dir(p), member.Name))
			if versions != 1 || int64(len(content)) != member.Size || shaOf(content) != member.SHA256 {
				t.Errorf("%s: the member %s has version %d and %d bytes, not what the manifest says", m.ID, member.Name, versions, len(content))
			}
		}
		all[m.ID] = m
	}
	return all
}

// contents returns what all sealed bundles hold, sorted.
func (w *fixture) contents(t *testing.T) (all []string) {
	t.Helper()
	for id, m := range w.sealed(t) {
		for _, member := range m.Members {
			content, _ := w.server.File(bundle.Folder(m.Source, id).String() + "/" + member.Name)
			all = append(all, member.Name+"="+string(content))
		}
	}
	slices.Sort(all)
	return all
}

// below returns the files below a directory of the watched one, without the first directories (day
// and id) where cut says so.
func (w *fixture) below(t *testing.T, dir string, cut int) (all []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, dir), func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(filepath.Join(w.dir, dir), p)
		parts := strings.Split(filepath.ToSlash(rel), "/")
		all = append(all, strings.Join(parts[min(cut, len(parts)-1):], "/"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// left returns the files that are still in the watched directory.
func (w *fixture) left(t *testing.T) (all []string) {
	t.Helper()
	for _, name := range w.below(t, ".", 0) {
		if top, _, _ := strings.Cut(name, "/"); top != privateDir && top != sentDir && top != failedDir {
			all = append(all, name)
		}
	}
	return all
}
