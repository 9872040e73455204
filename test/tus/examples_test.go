package tus

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// pages are the pages that show examples, with the headings of the section.
var pages = map[string]string{
	"docs/tus.md": "## Examples\n", "docs/tus.zh-CN.md": "## 示例\n",
}

var block = regexp.MustCompile("(?s)```(console|js)\n(.*?)```")

// snippets are the blocks of the section, in order: curl, tus-js-client, Uppy, a proof. The server
// that they speak of is d.
func (d *drive) snippets(of string) []string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", of))
	if err != nil {
		d.t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), pages[of])
	mine, _, _ := strings.Cut(rest, "\n## ")
	blocks := block.FindAllStringSubmatch(mine, -1)
	if !found || len(blocks) != 4 {
		d.t.Fatalf("%s: the section has %d blocks", of, len(blocks))
	}
	var all []string
	for _, b := range blocks {
		all = append(all, strings.ReplaceAll(b[2], "http://127.0.0.1:8320", d.url))
	}
	return all
}

// The examples of docs/tus.md work.
func TestExamples(t *testing.T) {
	t.Parallel()
	for of := range pages {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			d := newDrive(t, "--cors-origins", "*")
			snippets := d.snippets(of)
			dir := t.TempDir()
			t.Run("curl", func(t *testing.T) {
				needs(t, "curl", "curl")
				d.typed(t, dir, snippets[0])
				video, err := os.ReadFile(filepath.Join(dir, "video.mp4"))
				if err != nil {
					t.Fatal(err)
				}
				d.holds("/video.mp4", video)
			})
			t.Run("tus-js-client", func(t *testing.T) {
				video := noise(3*mib, 70)
				d.runInNode(t, snippets[1], video)
				d.holds("/films/video.mp4", video)
			})
			t.Run("proof", func(t *testing.T) {
				video := noise(3*mib, 71)
				bob := d.user("bob", 10*mib)
				bob.sendDeclared("his", video)
				through, requests := d.counted(t)
				ann := d.user("ann", 10*mib)
				ann.runInNode(t, strings.ReplaceAll(snippets[3], d.url, through), video)
				ann.holds("/video.mp4", video)
				if n := requests(http.MethodPatch); n != 0 {
					t.Errorf("the content was sent, by %d requests", n)
				}
				if n := requests(http.MethodPost); n != 2 {
					t.Errorf("%d requests were POST, not the creation and the proof", n)
				}
			})
			t.Run("Uppy", func(t *testing.T) {
				chromium(t)
				script := filepath.Join(dir, "page.mjs")
				must(t, os.WriteFile(script, []byte("const token = new URLSearchParams(location.search).get('token')\n"+snippets[2]+`
globalThis.upload = async () => {
  uppy.addFile({ name: 'uppy.txt', data: new File(['hello'], 'uppy.txt') })
  const { successful, failed } = await uppy.upload()
  return { successful: successful.map((f) => f.uploadURL), failed: failed.map((f) => f.error) }
}`), 0o600))
				if u := d.uppy(script, map[string]any{"token": d.token}); len(u.Successful) != 1 || len(u.Failed) != 0 {
					t.Errorf("Uppy says %+v", u)
				}
				d.holds("/uppy.txt", []byte("hello"))
			})
		})
	}
}

// runInNode runs a module beside video.mp4, with node_modules and the token of d. It fails unless
// the module prints "done".
func (d *drive) runInNode(t *testing.T, module string, video []byte) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "video.mp4"), video, 0o600))
	modules, err := filepath.Abs("node_modules")
	must(t, err)
	must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	must(t, os.WriteFile(filepath.Join(dir, "snippet.mjs"), []byte(module), 0o600))
	cmd := exec.CommandContext(t.Context(), node(t), "snippet.mjs")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TOKEN="+d.token)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "done") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// counted returns the address of a proxy before the server, and a function that returns how many
// requests of a method it has forwarded.
func (d *drive) counted(t *testing.T) (address string, requests func(method string) int) {
	t.Helper()
	to, err := url.Parse(d.url)
	must(t, err)
	var mu sync.Mutex
	seen := map[string]int{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // Location is then that of the proxy
		mu.Lock()
		defer mu.Unlock()
		seen[r.In.Method]++
	}}
	server := httptest.NewServer(forward)
	t.Cleanup(server.Close)
	return server.URL, func(method string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[method]
	}
}

// typed runs the lines of a console block in a shell that ends at the first failure.
func (d *drive) typed(t *testing.T, dir, console string) {
	t.Helper()
	lines := []string{"set -euo pipefail"}
	for line := range strings.Lines(console) {
		if typed, ok := strings.CutPrefix(line, "$ "); ok {
			lines = append(lines, strings.TrimSpace(typed))
		} else if n := len(lines) - 1; strings.HasSuffix(lines[n], "\\") { // it goes on
			lines[n] = strings.TrimSuffix(lines[n], "\\") + strings.TrimSpace(line)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.Join(lines, "\n"))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PASSWORD="+password)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, strings.Join(lines, "\n"), out)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
