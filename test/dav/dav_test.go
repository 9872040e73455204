// Package dav lets other people's clients of WebDAV work with the real binary: litmus, rclone,
// cadaver, curl. It has tests only. What the machine lacks is skipped with its reason, or fails
// where SMARTDRIVE_TEST_REQUIRE lists it.
package dav

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// drive is a running server.
type drive struct {
	t      testing.TB
	data   string
	listen string
	flags  []string
	log    bytes.Buffer
	server *process.Server
	url    string // of the user's own files
}

func newDrive(t testing.TB, flags ...string) *drive {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGKILL on Windows")
	}
	d := &drive{t: t, data: filepath.Join(t.TempDir(), "data"), listen: process.Address(t), flags: flags}
	t.Cleanup(func() {
		d.server.Kill()
		if t.Failed() {
			t.Logf("the server's messages:\n%s", d.log.String())
		}
	})
	d.start()
	return d
}

// start starts the server, on the same port every time.
func (d *drive) start() {
	d.t.Helper()
	server, err := process.Start(process.Options{
		Binary: process.Binary(d.t), Data: d.data, Listen: d.listen, Args: d.flags, Log: &d.log,
		Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + process.Password},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.server = server
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*time.Minute)
	defer cancel()
	at, err := server.Ready(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	d.url = at + "/dav/files"
}

// run runs a program in a directory and returns its output.
func (d *drive) run(dir, program string, args ...string) (string, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "RCLONE_CONFIG="+filepath.Join(dir, "rclone.conf"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is run of what must succeed.
func (d *drive) must(dir, program string, args ...string) string {
	d.t.Helper()
	out, err := d.run(dir, program, args...)
	if err != nil {
		d.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

// get reads a file of the drive.
func (d *drive) get(path string) string {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.SetBasicAuth("admin", process.Password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("GET %s: %s (%v)\n%s", path, resp.Status, err, body)
	}
	return string(body)
}

var summary = regexp.MustCompile("<- summary for `(\\w+)': of (\\d+) tests run: (\\d+) passed, (\\d+) failed")

// Every test of litmus passes, with no warning.
func TestLitmus(t *testing.T) {
	t.Parallel()
	litmus := servicetest.Tool(t, "litmus")
	d := newDrive(t)
	out, err := d.run(t.TempDir(), litmus, "-k", d.url+"/", "admin", process.Password)
	found := summary.FindAllStringSubmatch(out, -1)
	if err != nil || len(found) != 5 || strings.Contains(out, "FAIL") || strings.Contains(out, "WARNING") || strings.Contains(out, "SKIPPED") {
		t.Errorf("litmus: %v, %d suites\n%s", err, len(found), out)
	}
	for _, suite := range found {
		t.Logf("%s: %s of %s", suite[1], suite[3], suite[2])
	}
}

// names are file names that clients and servers have handled wrongly.
var names = []string{
	"plain.txt", "with space", "percent%20not", "hash#tag", "plus+and&amp", "q?uestion", "semi;colon,comma", "[brackets]{braces}", "quote'double\"",
	"ümlaut NFC", "emoji 😀", "中文 文件名", "trailing dots...", "-dash", "~tilde", "back\\slash", "a=b@c!d$e*f(g)",
}

// fill makes a directory with files of such names and of mixed size.
func fill(t testing.TB, dir string, files int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	write := func(path string, size int) {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(random.Uint32())
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range names {
		write(filepath.Join(dir, "names", name), i*1000)
		write(filepath.Join(dir, name+" as folder", "file"), i)
	}
	for i := range files {
		write(filepath.Join(dir, "many", fmt.Sprint(i%7), fmt.Sprint(i)), random.IntN(20_000))
	}
	write(filepath.Join(dir, "large"), 9<<20)
	write(filepath.Join(dir, "empty"), 0)
}

// rclone configures rclone for the drive and returns the name of the remote.
func (d *drive) rclone(dir string) (remote string) {
	d.t.Helper()
	program := servicetest.Tool(d.t, "rclone")
	secret := strings.TrimSpace(d.must(dir, program, "obscure", process.Password))
	config := fmt.Sprintf("[drive]\ntype = webdav\nurl = %s\nvendor = other\nuser = admin\npass = %s\n", d.url, secret)
	if err := os.WriteFile(filepath.Join(dir, "rclone.conf"), []byte(config), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return "drive:"
}

// rclone copies a tree there and back, changes it and syncs it, and finds no difference.
func TestRclone(t *testing.T) {
	t.Parallel()
	d, dir := newDrive(t), t.TempDir()
	rclone := servicetest.Tool(t, "rclone")
	remote := d.rclone(dir)
	src, back := filepath.Join(dir, "src"), filepath.Join(dir, "back")
	fill(t, src, depth.Pick(20, 100, 2000))
	d.must(dir, rclone, "copy", src, remote+"backup", "--create-empty-src-dirs")
	d.must(dir, rclone, "check", src, remote+"backup", "--download")
	if err := os.RemoveAll(filepath.Join(src, "many", "3")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(src, "large"), filepath.Join(src, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(src, "empty"), []byte("no longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.must(dir, rclone, "sync", src, remote+"backup")
	d.must(dir, rclone, "check", src, remote+"backup", "--download")
	d.must(dir, rclone, "moveto", remote+"backup/many", remote+"elsewhere/many")
	d.must(dir, rclone, "copy", remote+"elsewhere/many", filepath.Join(back, "many"))
	d.must(dir, rclone, "copy", remote+"backup", back)
	d.must(dir, rclone, "check", src, back, "--download")
	if out := d.must(dir, rclone, "about", remote); !strings.Contains(out, "Used:") {
		t.Errorf("the quota is not shown:\n%s", out)
	}
}

// The server is killed repeatedly while rclone syncs. No file is deleted by mistake, and in the end
// the trees are equal.
func TestRcloneBesideKills(t *testing.T) {
	t.Parallel()
	depth.Normal(t)
	d, dir := newDrive(t), t.TempDir()
	rclone := servicetest.Tool(t, "rclone")
	remote := d.rclone(dir)
	src := filepath.Join(dir, "src")
	fill(t, src, depth.Pick(50, 150, 2000))
	d.must(dir, rclone, "copy", src, remote+"tree")
	mirror := filepath.Join(dir, "mirror")
	for range depth.Pick(1, 3, 20) {
		done := make(chan error, 1)
		go func() { // from the drive to the mirror, which must never lose what the drive has
			_, err := d.run(dir, rclone, "sync", remote+"tree", mirror, "--retries", "1", "--low-level-retries", "1", "--max-delete", "0")
			done <- err
		}()
		d.server.Kill()
		<-done
		d.start()
	}
	d.must(dir, rclone, "sync", remote+"tree", mirror, "--max-delete", "0") // fails if anything was to be deleted
	d.must(dir, rclone, "check", src, remote+"tree", "--download")
	d.must(dir, rclone, "check", src, mirror, "--download")
}

// cadaver runs the commands that a person types.
func TestCadaver(t *testing.T) {
	t.Parallel()
	cadaver := servicetest.Tool(t, "cadaver")
	d, dir := newDrive(t), t.TempDir()
	host, _, _ := strings.Cut(strings.TrimPrefix(d.url, "http://"), "/")
	netrc := fmt.Sprintf("machine %s\nlogin admin\npassword \"%s\"\n", strings.Split(host, ":")[0], process.Password)
	if err := os.WriteFile(filepath.Join(dir, ".netrc"), []byte(netrc), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "local"), []byte("typed"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), cadaver, d.url+"/")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.Stdin = strings.NewReader("mkcol box\ncd box\nput local first\ncopy first second\nmove second third\nlock third\npropset third mood good\npropget third mood\nunlock third\nls\nquit\n")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "failed") || !strings.Contains(string(out), "good") {
		t.Errorf("cadaver: %v\n%s", err, out)
	}
	if got := d.get("/box/third"); got != "typed" {
		t.Errorf("the file holds %q", got)
	}
}

// curl: chunked bodies, Expect, and one that is cut.
func TestCurl(t *testing.T) {
	t.Parallel()
	curl := servicetest.Tool(t, "curl")
	d, dir := newDrive(t), t.TempDir()
	content := strings.Repeat("0123456789", 300_000)
	if err := os.WriteFile(filepath.Join(dir, "local"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	auth := "admin:" + process.Password
	d.must(dir, curl, "-sfS", "-u", auth, "-T", "local", d.url+"/known", "-H", "Expect: 100-continue")
	d.must(dir, curl, "-sfS", "-u", auth, "-T", "-", "-H", "Transfer-Encoding: chunked", d.url+"/empty")
	cmd := exec.CommandContext(t.Context(), curl, "-sfS", "-u", auth, "-T", "-", d.url+"/chunked", "-H", fmt.Sprintf("X-Expected-Entity-Length: %d", len(content)))
	cmd.Stdin = strings.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("curl: %v\n%s", err, out)
	}
	for _, path := range []string{"/known", "/chunked"} {
		if d.get(path) != content {
			t.Errorf("%s differs", path)
		}
	}
	if d.get("/empty") != "" {
		t.Error("the empty file is not empty")
	}
	if out, err := d.run(dir, curl, "-sfS", "-u", auth, "-T", "local", "-H", "X-Expected-Entity-Length: 5000000", "-H", "Transfer-Encoding: chunked", d.url+"/short"); err == nil {
		t.Errorf("a body that is shorter than promised was taken\n%s", out)
	}
	if out, err := d.run(dir, curl, "-sf", "-u", auth, d.url+"/short"); err == nil {
		t.Errorf("there is a file of a body that was shorter than promised: %d bytes", len(out))
	}
}
