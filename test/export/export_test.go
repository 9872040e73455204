package export

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
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
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	password = process.Password
	files    = 60
	fileSize = 512 << 10

	// patience is how long a test waits for what takes seconds, or a lease of half a minute; the
	// machine may be busy.
	patience = 4 * time.Minute
)

// desk is a person with a server and the command line.
type desk struct {
	t      *testing.T
	binary string
	home   string
	listen string
	flags  []string // more of the server's
	server *process.Server
	log    bytes.Buffer
}

func newDesk(t *testing.T, flags ...string) *desk {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGKILL on Windows")
	}
	d := &desk{t: t, binary: process.Binary(t), home: t.TempDir(), listen: process.Address(t), flags: flags}
	t.Cleanup(func() {
		d.server.Kill()
		if t.Failed() {
			t.Log(d.log.String())
		}
	})
	d.serve()
	d.run(password, "login", "http://"+d.listen, "--user", "admin", "--password-stdin")
	return d
}

func (d *desk) serve() {
	d.t.Helper()
	server, err := process.Start(process.Options{
		Binary: d.binary, Data: filepath.Join(d.home, "data"), Listen: d.listen, Args: d.flags, Log: &d.log, Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + password},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.server = server
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	if _, err := server.Ready(ctx); err != nil {
		d.t.Fatal(err)
	}
}

// run runs a command that must succeed and returns the first object that it printed.
func (d *desk) run(stdin string, args ...string) (out map[string]any) {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), d.binary, append(args, "--json")...)
	cmd.Dir, cmd.Stdin = d.home, strings.NewReader(stdin)
	cmd.Env = append(process.Environ(), "HOME="+d.home, "XDG_CONFIG_HOME="+filepath.Join(d.home, "config"))
	var messages bytes.Buffer
	cmd.Stderr = &messages
	raw, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, raw, messages.String())
	}
	_ = json.NewDecoder(bytes.NewReader(raw)).Decode(&out) // some commands print nothing
	return out
}

// token logs in past the command line.
func (d *desk) token() string {
	d.t.Helper()
	return d.tokenOf("admin")
}

// tokenOf logs a user in; all have the same password.
func (d *desk) tokenOf(name string) string {
	d.t.Helper()
	body := strings.NewReader(`{"name":"` + name + `","password":"` + password + `"}`)
	return d.call(http.MethodPost, "/sessions", "", body)["token"].(string)
}

func (d *desk) call(method, path, token string, body io.Reader) (out map[string]any) {
	d.t.Helper()
	return d.ask(method, path, token, "application/json", body)
}

func (d *desk) send(method, path, token, kind, body string) (out map[string]any) {
	d.t.Helper()
	return d.ask(method, path, token, kind, strings.NewReader(body))
}

func (d *desk) ask(method, path, token, kind string, body io.Reader) (out map[string]any) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.listen+"/api/v1"+path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode >= 300 {
		d.t.Fatalf("%s %s: %d %v %v", method, path, resp.StatusCode, out, err)
	}
	return out
}

// fill puts files into a folder of the drive.
func (d *desk) fill() map[string][]byte {
	d.t.Helper()
	all := map[string][]byte{}
	in := filepath.Join(d.home, "docs")
	for i := range files {
		name := fmt.Sprintf("store%d/文件-%02d.pdf", i%3, i)
		content := make([]byte, fileSize)
		seed := rand.NewChaCha8([32]byte{byte(i)})
		_, _ = seed.Read(content) // does not fail
		at := filepath.Join(in, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(at, content, 0o600); err != nil {
			d.t.Fatal(err)
		}
		all["docs/"+name] = content
	}
	d.run("", "put", "-r", in, "/docs")
	return all
}

// A download by curl resumes after the server was killed, and so does a download by our own
// command.
func TestDownloadResumesAfterKill(t *testing.T) {
	t.Parallel()
	curl := servicetest.Tool(t, "curl")
	d := newDesk(t)
	want := d.fill()
	x := d.run("", "export", "create", "/docs")
	id := x["id"].(string)
	d.run("", "export", "get", id, "whole.zip", "--wait")
	whole := d.read("whole.zip")
	link := d.call(http.MethodPost, "/exports/"+id+"/links", d.token(), strings.NewReader(`{"expires_in":3600}`))["url"].(string)

	had := d.half(exec.CommandContext(t.Context(), curl, "-sS", link), "part.zip")
	d.serve()
	rest := exec.CommandContext(t.Context(), curl, "-sS", "-C", "-", "-o", "part.zip", "-w", "%{size_download}", link)
	rest.Dir = d.home
	sent, err := rest.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := d.read("part.zip"); sha256.Sum256(got) != sha256.Sum256(whole) {
		t.Errorf("after the kill it has %d bytes and another content than %d", len(got), len(whole))
	}
	if fmt.Sprint(len(whole)-had) != string(sent) {
		t.Errorf("%s bytes were sent, and %d were missing", sent, len(whole)-had)
	}
	check(t, whole, want)
	d.run("", "admin", "fsck", "--data", filepath.Join(d.home, "data"))
}

// half runs a command that downloads to its standard output, kills the server in the middle, and
// stores the bytes that have arrived in a file. The command blocks meanwhile, because nobody reads
// its output and the rest exceeds the buffers of pipes and sockets.
func (d *desk) half(cmd *exec.Cmd, name string) (had int) {
	d.t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	var came bytes.Buffer
	if _, err := io.CopyN(&came, out, 1<<20); err != nil {
		d.t.Fatal(err)
	}
	d.server.Kill()
	if _, err := io.Copy(&came, out); err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		d.t.Fatal("the command was done before the kill")
	}
	if err := os.WriteFile(filepath.Join(d.home, name), came.Bytes(), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return came.Len()
}

func (d *desk) read(name string) []byte {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.home, name)) //nolint:gosec // of this test
	if err != nil {
		d.t.Fatal(err)
	}
	return raw
}

func check(t *testing.T, raw []byte, want map[string][]byte) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != len(want) {
		t.Errorf("there are %d files of %d", len(z.File), len(want))
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want[f.Name]) {
			t.Errorf("%s is another file: %v", f.Name, err)
		}
	}
}

// A zip that is being written into the drive is there once, whenever the server is killed.
func TestAZipIsWrittenIntoTheDriveOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	want := d.fill()
	id := d.run("", "export", "create", "/docs")["id"].(string)
	d.run("", "export", "get", id, "whole.zip", "--wait")
	token := d.token()
	d.call(http.MethodPost, "/exports/"+id+"/files", token, strings.NewReader(`{"folder":"root"}`))
	job := func() map[string]any {
		return d.call(http.MethodGet, "/exports/"+id+"/files", token, nil)["items"].([]any)[0].(map[string]any)
	}
	process.Eventually(t, patience, "a part is in the drive", func() error {
		if job()["sent"].(float64) == 0 {
			return fmt.Errorf("%v", job())
		}
		return nil
	})
	d.server.Kill()
	d.serve()
	process.Eventually(t, patience, "the zip is in the drive", func() error { // the lease of the dead one ends first
		if job()["state"] != "done" {
			return fmt.Errorf("%v", job())
		}
		return nil
	})
	d.run("", "get", "/docs.zip", "copy.zip")
	whole := d.read("whole.zip")
	if sha256.Sum256(d.read("copy.zip")) != sha256.Sum256(whole) {
		t.Error("what lies in the drive is another zip")
	}
	check(t, whole, want)
	nodes := d.call(http.MethodGet, "/nodes/root/children", token, nil)["items"].([]any)
	if len(nodes) != 2 {
		t.Errorf("there are %d nodes in the root: %v", len(nodes), nodes)
	}
}
