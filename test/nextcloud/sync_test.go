// Package nextcloud runs real clients of the Nextcloud protocol against the real binary:
// nextcloudcmd, the desktop client without its window, and rclone. Two directories are kept equal
// through the server while that is killed. It has tests only.
package nextcloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// drive is a server that is killed and comes back, and an app password for it.
type drive struct {
	t      *testing.T
	dir    string
	listen string
	url    string
	secret string // the app password

	mu     sync.Mutex
	server *process.Server
	log    bytes.Buffer // of the server
}

// Write implements io.Writer: it keeps the log of the server.
func (d *drive) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

// asked is how many requests of a method at an address the server has logged.
func (d *drive) asked(method, path string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, method) && strings.Contains(line, path) {
			n++
		}
	}
	return n
}

func newDrive(t *testing.T) *drive {
	t.Helper()
	d := &drive{t: t, dir: t.TempDir(), listen: process.Address(t)}
	d.url = "http://" + d.listen
	d.start()
	t.Cleanup(func() { d.server.Kill() })
	d.cli("login", d.url, "--user", "admin", "--password-stdin")
	d.secret = strings.TrimSpace(d.cli("token", "create", "clients", "--heads", "nextcloud,dav"))
	return d
}

func (d *drive) start() {
	d.t.Helper()
	s, err := process.Start(process.Options{
		Binary: process.Binary(d.t), Data: filepath.Join(d.dir, "data"), Listen: d.listen, Args: []string{"--min-free", "0"},
		Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + process.Password}, Log: io.MultiWriter(d.t.Output(), d),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := s.Ready(ctx); err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.server = s
	d.mu.Unlock()
}

// kill ends the server in the middle of whatever it does, and starts it again.
func (d *drive) kill() {
	d.t.Helper()
	d.server.Kill()
	d.start()
}

// cli runs smartdrive as the client's user.
func (d *drive) cli(args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), process.Binary(d.t), args...)
	cmd.Env = append(process.Environ(), "HOME="+d.dir, "XDG_CONFIG_HOME="+d.dir)
	cmd.Stdin = strings.NewReader(process.Password + "\n")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("smartdrive %q: %v\n%s", args, err, said.String())
	}
	return out.String()
}

// desktop is a directory that nextcloudcmd keeps equal with the drive.
type desktop struct {
	*drive

	name, dir, home string
}

func (d *drive) desktop(name string) desktop {
	d.t.Helper()
	p := desktop{d, name, filepath.Join(d.dir, name), filepath.Join(d.dir, name+"-home")}
	for _, dir := range []string{p.dir, p.home} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			d.t.Fatal(err)
		}
	}
	return p
}

// sync runs the client once. It may fail while the server is killed.
func (p desktop) sync(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, servicetest.Tool(p.t, "nextcloudcmd"), "--non-interactive", "-h", "--max-sync-retries", "3",
		"--user", "admin", "--password", p.secret, p.dir, p.url)
	cmd.Env = append(process.Environ(), "HOME="+p.home, "XDG_CONFIG_HOME="+p.home, "XDG_DATA_HOME="+p.home, "XDG_CACHE_HOME="+p.home,
		"QT_QPA_PLATFORM=offscreen", "OWNCLOUD_BLACKLIST_TIME_MAX=1", // s: what failed is tried again by the next run
		"XDG_RUNTIME_DIR="+p.home)
	return cmd.CombinedOutput()
}

func (p desktop) mustSync() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := p.sync(ctx); err != nil {
		p.t.Fatalf("%s: %v\n%s", p.name, err, tail(out))
	}
}

func tail(out []byte) []byte { return out[max(0, len(out)-8000):] }

func (p desktop) write(name string, content []byte, at time.Time) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err == nil && !at.IsZero() {
		err = os.Chtimes(path, at, at)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// tree returns the digest and the time in seconds of each file in a directory, without the client's
// own files.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || rel == ".":
			return err
		case strings.HasPrefix(e.Name(), ".sync_") || strings.HasPrefix(e.Name(), "._sync_") || strings.HasPrefix(e.Name(), ".owncloudsync"):
			return nil
		case e.IsDir():
			all[rel+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		info, statErr := e.Info()
		if err == nil && statErr == nil {
			all[rel] = fmt.Sprintf("%x %d", sha256.Sum256(b), info.ModTime().Unix())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func equal(t *testing.T, what string, a, b map[string]string) {
	t.Helper()
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s: %q is %q and %q", what, name, a[name], b[name])
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s: %q is on one side alone", what, name)
		}
	}
}

func noise(size int, seed uint64) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 7})
	_, _ = r.Read(b)
	return b
}

// names are what protocols and file systems like to spoil.
var names = []string{
	"plain.txt", "with space & plus+.txt", "100% sure #1.txt", "文件 (2).txt", "émoji 🎉.bin", "semi;colon=v.txt",
	"deep/er/and/deeper/file.dat", "quote'.txt", "[brackets].txt", "tilde~.txt", "%41 is not A.txt",
}

func TestTwoDesktopsAreKeptEqual(t *testing.T) {
	t.Parallel()
	servicetest.Tool(t, "nextcloudcmd")
	d := newDrive(t)
	a, b := d.desktop("a"), d.desktop("b")
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for i, name := range names {
		a.write(name, noise(1000+i, uint64(i)), old.Add(time.Duration(i)*time.Hour))
	}
	a.write("empty.txt", nil, old)
	a.write("large.bin", noise(25<<20, 99), old) // in chunks
	if err := os.MkdirAll(filepath.Join(a.dir, "empty folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.mustSync()
	b.mustSync()
	equal(t, "first", tree(t, a.dir), tree(t, b.dir))

	// A change, a rename, a move of a folder and a deletion on the other side, far below the top.
	b.write("deep/er/and/deeper/file.dat", noise(2000, 1000), old.Add(time.Minute))
	for from, to := range map[string]string{"plain.txt": "renamed.txt", "deep/er": "moved", "large.bin": "empty folder/large.bin"} {
		if err := os.Rename(filepath.Join(b.dir, from), filepath.Join(b.dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(b.dir, "quote'.txt")); err != nil {
		t.Fatal(err)
	}
	want := tree(t, b.dir)
	b.mustSync()
	a.mustSync()
	equal(t, "second", want, tree(t, a.dir))
	equal(t, "second, where it was made", want, tree(t, b.dir))
	if got := d.cli("ls", "/moved/and/deeper"); !strings.Contains(got, "file.dat") {
		t.Errorf("the drive has: %s", got)
	}
}

// The desktop client sends many small files in few bulk uploads. Debian's version sends empty files
// by single requests, and its user agent does not enable bulk upload by itself.
func TestTheDesktopSendsManyFilesAtOnce(t *testing.T) {
	t.Parallel()
	servicetest.Tool(t, "nextcloudcmd")
	d := newDrive(t)
	a, b := d.desktop("a"), d.desktop("b")
	old := time.Date(2004, 5, 6, 7, 8, 9, 0, time.UTC)
	files := depth.Pick(60, 250, 2000)
	for i := range files {
		a.write(fmt.Sprintf("dir %d/文件 %d.bin", i%5, i), noise(1+i*100, uint64(i)), old.Add(time.Duration(i)*time.Minute))
	}
	server, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(server)
		r.Out.Header.Set("User-Agent", "mirall/3.10.0")
	}}
	renamed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without this, package http closes the body as soon as the answer begins. A proxy that has
		// not read yet that it is at its end then closes the connection of the answer.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer renamed.Close()
	d.url = renamed.URL
	a.mustSync()
	b.mustSync()
	equal(t, "many files", tree(t, a.dir), tree(t, b.dir))
	const all, alone = "/remote.php/dav/bulk", "/remote.php/dav/files/"
	if many, one := d.asked("POST", all), d.asked("PUT", alone); many == 0 || many > files/20 || one > files/10 {
		t.Errorf("%d files came in %d requests of many, and %d of one", files, many, one)
	}
}

// Both sides change files while the server is killed repeatedly. In the end only deleted files are
// missing.
func TestKillsDeleteNothing(t *testing.T) {
	t.Parallel()
	servicetest.Tool(t, "nextcloudcmd")
	d := newDrive(t)
	a, b := d.desktop("a"), d.desktop("b")
	written := map[string]string{}
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	put := func(p desktop, name string, size int) {
		content := noise(size, random.Uint64())
		p.write(name, content, time.Time{})
		written[name] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	for round := range depth.Pick(1, 2, 12) {
		for i := range depth.Pick(4, 12, 60) {
			for _, p := range []desktop{a, b} {
				put(p, fmt.Sprintf("%s/%d/%d.bin", p.name, round, i), random.IntN(200_000))
			}
		}
		put(a, fmt.Sprintf("a/%d/large.bin", round), 24<<20)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		var running sync.WaitGroup
		for _, p := range []desktop{a, b} {
			running.Go(func() { _, _ = p.sync(ctx) })
		}
		ended := make(chan struct{})
		go func() { running.Wait(); close(ended) }()
		for range 3 {
			select {
			case <-ended:
			case <-time.After(time.Duration(100+random.IntN(1500)) * time.Millisecond): // somewhere in the middle; where does not matter
			}
			d.kill()
		}
		<-ended
		stop()
	}
	var left, right map[string]string
	process.Eventually(t, 4*time.Minute, "both sides agree", func() error { // what failed is left alone for a second
		for _, p := range []desktop{a, b, a} {
			if out, err := p.sync(t.Context()); err != nil {
				return fmt.Errorf("%s: %w\n%s", p.name, err, tail(out))
			}
		}
		if left, right = tree(t, a.dir), tree(t, b.dir); !maps.Equal(left, right) {
			return errors.New("they differ")
		}
		return nil
	})
	equal(t, "after the kills", left, right)
	for name, sum := range written {
		if got, _, _ := strings.Cut(left[name], " "); got != sum {
			t.Errorf("%s: %q, and %s was written", name, left[name], sum)
		}
	}
	if trash := strings.TrimSpace(d.cli("ls", "--trash")); trash != "" { // nobody has deleted anything
		t.Errorf("in the trash: %s", trash)
	}
}

// rclone as a client of Nextcloud: times are kept.
func TestRclone(t *testing.T) {
	t.Parallel()
	rclone := servicetest.Tool(t, "rclone")
	d := newDrive(t)
	local, back := filepath.Join(d.dir, "local"), filepath.Join(d.dir, "back")
	p := desktop{d, "local", local, ""}
	old := time.Date(2003, 4, 5, 6, 7, 8, 0, time.UTC)
	for i, name := range names {
		p.write(name, noise(3000+i, uint64(i)), old)
	}
	p.write("large.bin", noise(23<<20+17, 5), old)
	obscured, err := exec.CommandContext(t.Context(), rclone, "obscure", d.secret).Output()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), rclone, append(args, "--retries", "1")...)
		cmd.Env = append(process.Environ(), "HOME="+d.dir, "XDG_CONFIG_HOME="+d.dir, "RCLONE_CONFIG_NC_TYPE=webdav", "RCLONE_CONFIG_NC_VENDOR=nextcloud",
			"RCLONE_CONFIG_NC_URL="+d.url+"/remote.php/dav/files/admin/", "RCLONE_CONFIG_NC_USER=admin", "RCLONE_CONFIG_NC_PASS="+strings.TrimSpace(string(obscured)))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("rclone %q: %v\n%s", args, err, tail(out))
		}
	}
	run("sync", local, "nc:copy")
	run("check", local, "nc:copy", "--download")
	run("sync", "nc:copy", back)
	equal(t, "there and back", tree(t, local), tree(t, back))
	if got := d.cli("uploads"); strings.Contains(got, "upload") && strings.Contains(got, "active") {
		t.Errorf("an upload is left: %s", got)
	}
}

// The ways in which a client gets its app password.
func TestLoginFlow(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	post := func(path, form, token string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+path, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(form, "{") {
			req.Header.Set("Content-Type", "application/json")
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		req.Header.Set("User-Agent", "Mozilla/5.0 (Linux) mirall/3.7.3")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out map[string]any
		_ = json.NewDecoder(resp.Body).Decode(&out) // a 204 has none
		return resp.StatusCode, out
	}
	_, begun := post("/index.php/login/v2", "", "")
	poll := begun["poll"].(map[string]any)
	page := begun["login"].(string)
	token := "token=" + poll["token"].(string)
	endpoint := strings.TrimPrefix(poll["endpoint"].(string), d.url)
	if status, _ := post(endpoint, token, ""); status != http.StatusNotFound {
		t.Fatalf("before it is granted: %d", status)
	}
	_, login := post("/api/v1/sessions", fmt.Sprintf(`{"name":"admin","password":%q}`, process.Password), "")
	if status, _ := post("/api/v1/flows/"+page[strings.LastIndexByte(page, '/')+1:], "{}", login["token"].(string)); status != http.StatusNoContent {
		t.Fatalf("the grant: %d", status)
	}
	status, got := post(endpoint, token, "")
	if status != http.StatusOK || got["loginName"] != "admin" {
		t.Fatalf("%d %v", status, got)
	}
	if !slices.ContainsFunc(strings.Split(d.cli("token", "ls"), "\n"), func(line string) bool { return strings.Contains(line, "mirall/3.7.3") }) {
		t.Error("the app password is not in the list")
	}
	d.secret = got["appPassword"].(string)
	if servicetest.Tool(t, "nextcloudcmd") != "" {
		d.desktop("a").mustSync()
	}
}
