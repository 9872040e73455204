// Package smoke uses the real binary as a new user would in the first five minutes, accidents
// included. It contains only tests.
package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/backing"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	password = process.Password
	mib      = 1 << 20

	// patience is how long a test waits for what takes a second or two; the machine may be busy.
	patience = 3 * time.Minute
)

// desk is a person with a server, the command line and a home directory.
type desk struct {
	t        *testing.T
	binary   string
	home     string
	data     string
	listen   string
	flags    []string // of the server: what it stands on
	token    string   // of its first user, for looking past the wire
	messages *rig.Log // the server's, and those of commands beside it
	server   *process.Server
	wire     *wire
}

func newDesk(t *testing.T, flags ...string) *desk {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM on Windows")
	}
	d := &desk{
		t: t, binary: process.Binary(t), home: t.TempDir(), listen: process.Address(t), flags: flags, messages: new(rig.Log),
	}
	d.data = filepath.Join(d.home, "data")
	t.Cleanup(func() {
		if d.server != nil {
			d.server.Kill()
		}
		if t.Failed() {
			text := d.messages.String()
			t.Logf("the server's messages:\n%s", text[max(0, len(text)-5000):])
		}
	})
	d.serve()
	d.wire = newWire(t, d.listen)
	d.run(password, "login", d.wire.url(), "--user", "admin", "--password-stdin")
	return d
}

// serve starts the server, on the same port every time.
func (d *desk) serve() {
	d.t.Helper()
	server, err := process.Start(process.Options{
		Binary: d.binary, Data: d.data, Listen: d.listen, Args: d.flags, Log: d.messages, Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + password},
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

// command is the command line at this desk.
func (d *desk) command(args ...string) *exec.Cmd {
	cmd := exec.Command(d.binary, append(args, "--json")...)
	cmd.Dir = d.home
	cmd.Env = append(process.Environ(), "HOME="+d.home, "XDG_CONFIG_HOME="+filepath.Join(d.home, "config"))
	return cmd
}

// run runs a command that must succeed and returns the objects that it printed.
func (d *desk) run(stdin string, args ...string) []object {
	d.t.Helper()
	cmd := d.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out.String(), messages.String())
	}
	return objects(d.t, out.Bytes())
}

// object holds the members of the --json outputs that the tests use.
type object struct {
	Path, Name, State string
	Size, Moved       int64
	Blake3            string
	Usage             struct{ Used int64 }
}

func objects(t *testing.T, b []byte) (all []object) {
	t.Helper()
	for dec := json.NewDecoder(bytes.NewReader(b)); ; {
		var o object
		switch err := dec.Decode(&o); err {
		case nil:
			all = append(all, o)
		case io.EOF:
			return all
		default:
			t.Fatalf("read %q: %v", b, err)
		}
	}
}

// write makes a file and returns its digest.
func (d *desk) write(name string, c history.Content) string {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.home, name))
	if err == nil {
		_, err = io.Copy(f, c.Reader())
	}
	if err != nil || f.Close() != nil {
		d.t.Fatal(err)
	}
	return c.Digest()
}

// halfPut starts an upload over a connection that stops after about half of it, and waits until the
// server has stored some parts.
func (d *desk) halfPut(local, remote string, size int64) (*exec.Cmd, *bytes.Buffer) {
	d.t.Helper()
	d.wire.allow(size / 2)
	cmd, out := d.command("put", local, remote), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, d.messages
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	process.Eventually(d.t, patience, "the middle of put "+local, func() error {
		staged, err := d.staged()
		if err == nil && staged < size/8 { // parts that are on the way have the rest of the half
			err = fmt.Errorf("%d bytes are staged", staged)
		}
		return err
	})
	return cmd, out
}

// staged returns the bytes of stored parts, requested on a direct connection.
func (d *desk) staged() (n int64, err error) {
	var open struct{ Items []struct{ ID string } }
	if err := d.ask("GET", "/uploads", nil, &open); err != nil {
		return 0, err
	}
	for _, up := range open.Items {
		var parts struct{ Items []struct{ Size int64 } }
		if err := d.ask("GET", "/uploads/"+up.ID+"/parts", nil, &parts); err != nil {
			return 0, err
		}
		for _, p := range parts.Items {
			n += p.Size
		}
	}
	return n, nil
}

// ask sends a request to the server without the wire.
func (d *desk) ask(method, path string, in, out any) error {
	if d.token == "" && path != "/sessions" {
		var granted struct{ Token string }
		if err := d.ask("POST", "/sessions", map[string]string{"name": "admin", "password": password}, &granted); err != nil {
			return err
		}
		d.token = granted.Token
	}
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.listen+"/api/v1"+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}

// TestFirstFiveMinutes: serve, log in, upload a large file with accidents, download it, and tidy
// up.
func TestFirstFiveMinutes(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		firstFiveMinutes(t)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		firstFiveMinutes(t, backing.Flags(t, backing.Cluster()...)...)
	})
}

func firstFiveMinutes(t *testing.T, flags ...string) {
	t.Helper()
	d := newDesk(t, flags...)
	size := int64(100 * mib)
	sum := d.write("large", history.Content{Seed: 1, Size: size})

	// The client is killed during the upload. The same command then sends only the missing parts.
	cmd, _ := d.halfPut("large", "/large", size)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	d.wire.cut()
	d.wire.allow(1 << 60)
	there, err := d.staged() // or more, if the end of a part is still being written
	if err != nil {
		t.Fatal(err)
	}
	again := d.run("", "put", "large", "/large")
	if again[0].State != "sent" || again[0].Blake3 != sum || again[0].Moved > size-there || again[0].Moved == 0 {
		t.Errorf("put after the client was killed, with %d bytes there: %+v", there, again[0])
	}

	// The server is killed during the upload. The client continues by itself.
	other := d.write("other", history.Content{Seed: 2, Size: size})
	cmd, out := d.halfPut("other", "/other", size)
	d.server.Kill()
	d.serve()
	d.wire.cut()
	d.wire.allow(1 << 60)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("put while the server was killed: %v\n%s", err, out)
	}
	if survived := objects(t, out.Bytes()); survived[0].State != "sent" || survived[0].Blake3 != other {
		t.Errorf("put while the server was killed: %+v", survived[0])
	}

	// What comes back is what went in.
	d.run("", "get", "/large", "/other", "down/")
	for name, seed := range map[string]uint64{"large": 1, "other": 2} {
		want := history.Content{Seed: seed, Size: size}
		got, err := os.ReadFile(filepath.Join(d.home, "down", name))
		if err != nil || !bytes.Equal(got, want.Bytes(0, size)) {
			t.Errorf("get of %s: %d bytes, %v", name, len(got), err)
		}
	}
	d.afterwards(size)
}

// afterwards is what needs no large transfer: instant upload, usage, ls, rm, restore, and an
// orderly end.
func (d *desk) afterwards(size int64) {
	d.t.Helper()
	// Up to 64 MiB the digest is known before anything is sent; with a larger file it races with
	// the sending.
	const small = 60 * mib
	d.write("small", history.Content{Seed: 3, Size: small})
	d.run("", "put", "small", "/folder/first")
	if instant := d.run("", "put", "small", "/folder/same"); instant[0].State != "instant" || instant[0].Moved != 0 {
		d.t.Errorf("put of content that is there: %+v", instant[0])
	}
	if used := d.run("", "usage")[0].Usage.Used; used != 2*size+2*small {
		d.t.Errorf("usage: %d bytes, two files of %d and two of %d", used, size, small)
	}
	d.wantNames("folder large other")
	d.run("", "rm", "/other")
	d.wantNames("folder large")
	d.run("", "restore", "/other")
	d.wantNames("folder large other")
	if code, err := d.server.Stop(patience); code != 0 || err != nil {
		d.t.Errorf("SIGTERM ends with %d, %v", code, err)
	}
	if said := d.server.Said(); len(said) != 1 {
		d.t.Errorf("standard output is %q, not one line", said)
	}
}

func (d *desk) wantNames(want string) {
	d.t.Helper()
	var names []string
	for _, o := range d.run("", "ls", "/") {
		names = append(names, o.Name)
	}
	if got := strings.Join(names, " "); got != want {
		d.t.Errorf("ls: %q, want %q", got, want)
	}
}

// A second server on the same data directory or port exits with an error that names the cause.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tc := range map[string]struct{ data, listen, says string }{
		"the data directory is in use": {d.data, "127.0.0.1:0", strconv.Itoa(d.server.PID())},
		"the port is taken":            {filepath.Join(d.home, "second"), taken.Addr().String(), "--listen"},
	} {
		var messages bytes.Buffer
		s, err := process.Start(process.Options{Binary: d.binary, Data: tc.data, Listen: tc.listen, Log: &messages})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Ended():
		case <-time.After(patience):
			s.Kill()
			t.Errorf("%s: it did not end", name)
		}
		if code, err := s.Exit(); code != 1 || err != nil || !strings.Contains(messages.String(), tc.says) {
			t.Errorf("%s: exit code %d (%v), %q should say %q", name, code, err, messages.String(), tc.says)
		}
		if said := s.Said(); len(said) > 0 {
			t.Errorf("%s: standard output is %q", name, said)
		}
	}
	d.wantNames("") // the first one is not disturbed
}
