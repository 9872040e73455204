package system_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

func TestStandardOutputIsOneLine(t *testing.T) {
	t.Parallel()
	site := rig.New(t, "--log-level", "debug")
	s := site.Start(t)
	u := s.NewUser(t, "ann", 50*rig.MiB)
	u.Put(t, "/a", history.Content{Seed: 1, Size: 1000})
	u.Get(t, "/nope").Is(t, http.StatusNotFound)
	s.End(t)
	if said := s.Said(); len(said) != 1 || said[0] != "SmartDrive is ready at "+s.URL || strings.HasSuffix(s.URL, "/") {
		t.Errorf("standard output is %q", said)
	}
	if _, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://")); err != nil || port == "0" {
		t.Errorf("the URL %s does not have the real port", s.URL)
	}
}

func TestTheDataDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	if err := os.MkdirAll(site.Data, 0o755); err != nil { // as a plain mkdir creates it
		t.Fatal(err)
	}
	site.Start(t)
	for name, want := range map[string]fs.FileMode{".": fs.ModeDir | 0o700, "admin.sock": fs.ModeSocket | 0o600, "lock": 0o600, "staging": fs.ModeDir | 0o700} {
		if info, err := os.Stat(filepath.Join(site.Data, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, want %v (%v)", name, info.Mode(), want, err)
		}
	}
}

func TestTheInitialPasswordIsKeptUntilItIsChanged(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.StartEnv(t, []string{"SMARTDRIVE_ADMIN_PASSWORD="})
	path := filepath.Join(site.Data, "initial-password")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("the file is %v, %v", info, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	password := strings.TrimSpace(string(text))
	if n := strings.Count(s.Log.String(), password); n != 1 {
		t.Errorf("it is printed %d times", n)
	}
	s.Kill()
	s = site.Start(t) // the variable is ignored from now on
	if strings.Contains(s.Log.String(), password) {
		t.Error("it is printed again")
	}
	u := s.Anybody(t)
	u.Token = u.Post(t, "/sessions", map[string]any{"name": "admin", "password": password}).JSON(t, http.StatusCreated)["token"].(string)
	u.Do(t, http.MethodPut, "/me/password", map[string]any{"current": password, "password": rig.Password}).Is(t, http.StatusNoContent)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	s.Login(t, "admin")
}

// TestALostAdminPasswordIsReset: "admin" resets the administrator's password with or without a
// running server, which ends the sessions.
func TestALostAdminPasswordIsReset(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.StartEnv(t, []string{"SMARTDRIVE_ADMIN_PASSWORD=something forgotten"})
	lost := s.Anybody(t)
	login := map[string]any{"name": "admin", "password": "something forgotten"}
	lost.Token = lost.Post(t, "/sessions", login).JSON(t, http.StatusCreated)["token"].(string)
	site.Admin(t, rig.Password+"\n", "user", "set", "admin", "--password", "-").OK(t)
	s.Login(t, "admin")
	lost.Get(t, "/me").Problem(t, http.StatusUnauthorized, "unauthenticated")
	s.End(t)

	site.Admin(t, "another password\n", "user", "set", "admin", "--password", "-").OK(t)
	s = site.Start(t)
	s.Anybody(t).Post(t, "/sessions", map[string]any{"name": "admin", "password": rig.Password}).Problem(t, 401, "unauthenticated")
	s.Anybody(t).Post(t, "/sessions", map[string]any{"name": "admin", "password": "another password"}).Is(t, http.StatusCreated)
}

// TestAdminCommandsWithAndWithoutAServer: admin commands have the same effect on a running server
// and on a directory without one.
func TestAdminCommandsWithAndWithoutAServer(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	site.Start(t).End(t)
	for _, running := range []bool{false, true} {
		name := fmt.Sprintf("user-%t", running)
		if running {
			site.Start(t)
		}
		site.Admin(t, rig.Password+"\n", "user", "add", name, "--quota", "5GiB", "--password", "-").OK(t)
		if got := site.Admin(t, "", "ledger", name, "--json").OK(t); !strings.Contains(got.Out, "5368709120") {
			t.Errorf("running %t: the ledger is %s", running, got)
		}
		if got := site.Admin(t, "", "user", "ls").OK(t); !strings.Contains(got.Out, name) {
			t.Errorf("running %t: the users are %s", running, got)
		}
		if got := site.Admin(t, "", "user", "rm", "nobody"); got.Code != 4 {
			t.Errorf("running %t: deleting nobody: %s", running, got)
		}
		site.Admin(t, "", "user", "rm", name).OK(t)
	}
}

// TestTheFirstLoginSetsAPassword: after an administrator has set a user's password, the user must
// set another one first.
func TestTheFirstLoginSetsAPassword(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.Start(t)
	site.Admin(t, rig.Password+"\n", "user", "add", "wang", "--must-change", "--password", "-").OK(t)
	if got := site.Admin(t, "", "user", "ls").OK(t); !strings.Contains(got.Out, "never logged in") {
		t.Errorf("before the first login: %s", got.Out)
	}
	home := t.TempDir()
	run := func(stdin string, args ...string) rig.Result {
		t.Helper()
		return site.Client(t, home, stdin, args...)
	}
	run(rig.Password+"\n", "login", s.URL, "--user", "wang", "--password-stdin").OK(t)
	if got := run("", "ls"); got.Code == 0 {
		t.Errorf("listed before: %s", got.Out)
	}
	run(rig.Password+"\nonly I know this\n", "passwd", "--password-stdin").OK(t)
	run("", "ls").OK(t)
	if got := site.Admin(t, "", "user", "ls").OK(t); !strings.Contains(got.Out, "last login") {
		t.Errorf("after it: %s", got.Out)
	}
}

func TestUnknownFlagsAndKeysAreRefused(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	file := filepath.Join(rig.Dir(t), "config.yaml")
	if err := os.WriteFile(file, []byte("uplaod-idle: 30s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"--frobnicate"}, "--frobnicate"},
		{[]string{"--upload-idle", "10ms"}, "--upload-idle"},
		{[]string{"--config", file}, "uplaod-idle"},
		{[]string{"--config", "/does/not/exist"}, "--config"},
		{[]string{"surplus"}, "surplus"},
	} {
		r := site.Run(t, "", append([]string{"serve"}, c.args...)...)
		if r.Code != 2 || r.Out != "" {
			t.Errorf("%v: %s", c.args, r)
		}
		r.Says(t, c.words)
	}
	if _, err := os.Stat(site.Data); !os.IsNotExist(err) {
		t.Errorf("a refused command made the data directory: %v", err)
	}
}

// TestPrecedenceOfSettings: a flag precedes a variable, a variable the file, the file the default.
func TestPrecedenceOfSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(rig.Dir(t), "config.yaml")
	if err := os.WriteFile(file, []byte("default-quota: 1MiB\npart-size: 2MiB\ncors-origins: [https://file.example]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	site := rig.New(t, "--config", file)
	s := site.StartEnv(t, []string{"SMARTDRIVE_DEFAULT_QUOTA=2MiB", "SMARTDRIVE_PART_SIZE=4MiB"}, "--default-quota", "3MiB")
	admin := s.Login(t, "admin")
	made := admin.Post(t, "/admin/users", map[string]any{"name": "ann", "password": rig.Password}).JSON(t, http.StatusCreated)
	if made["total"] != float64(3*rig.MiB) {
		t.Errorf("the quota is %v: the flag does not win", made["total"])
	}
	up := s.Login(t, "ann").Post(t, "/uploads", map[string]any{"path": "/a", "size": 1000}).JSON(t, http.StatusCreated)
	if up["part_size"] != float64(4*rig.MiB) {
		t.Errorf("the part size is %v: the variable does not win over the file", up["part_size"])
	}
	r := preflight(t, s, "https://file.example")
	if r.Header.Get("Access-Control-Allow-Origin") != "https://file.example" {
		t.Errorf("the file is not read: %v", r.Header)
	}
}

func TestBaseURLWithASubPath(t *testing.T) {
	t.Parallel()
	site := rig.New(t, "--base-url", "https://example.org/drive")
	s := site.Start(t)
	if !strings.HasSuffix(s.URL, "/drive") {
		t.Errorf("the URL is %s", s.URL)
	}
	u := s.NewUser(t, "ann", 50*rig.MiB) // uses the sub-path
	node := u.Put(t, "/a", history.Content{Seed: 1, Size: 10})
	u.URL = strings.TrimSuffix(u.URL, "/drive") // as behind a proxy that strips the sub-path
	u.Get(t, "/me").Is(t, http.StatusOK)
	link := u.Post(t, "/nodes/"+node["id"].(string)+"/links", map[string]any{"expires_in": 60}).JSON(t, http.StatusCreated)
	if !strings.HasPrefix(link["url"].(string), "https://example.org/drive/api/v1/") {
		t.Errorf("the link is %v", link["url"])
	}
}

// TestSIGTERMDrains: after SIGTERM, a part and a download in flight still complete.
func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.Start(t)
	u := s.NewUser(t, "ann", 500*rig.MiB)
	// Larger than the socket buffers, so that the download waits for its reader.
	file := history.Content{Seed: 1, Size: 32 * rig.MiB}
	u.Put(t, "/file", file)
	up := u.Begin(t, "/upload", history.Content{Seed: 2, Size: 2 * rig.MiB})

	id := u.Node(t, "/file")["id"].(string)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/nodes/"+id+"/content", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+u.Token)
	download, err := u.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer download.Body.Close()

	body, send := io.Pipe()
	part := make(chan rig.Reply, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/api/v1/uploads/"+up.ID+"/parts/0", body)
		if err == nil {
			req.ContentLength = rig.MiB
			var r rig.Reply
			if r, err = u.Send(req); err == nil {
				part <- r
			}
		}
		if err != nil {
			t.Error(err)
		}
		close(part)
	}()
	if _, err := send.Write(up.Part(0)[:rig.MiB/2]); err != nil {
		t.Fatal(err)
	}
	metric(t, s, "http_in_flight", "3") // the part, the download and this question
	ended := make(chan int, 1)
	go func() {
		code, err := s.Stop(rig.Patience)
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	process.Eventually(t, rig.Patience, "no new connections", func() error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err == nil {
			return fmt.Errorf("connected: %w", conn.Close())
		}
		return nil
	})
	if _, err := send.Write(up.Part(0)[rig.MiB/2:]); err != nil {
		t.Fatal(err)
	}
	if r, ok := <-part; !ok || r.StatusCode != http.StatusNoContent {
		t.Errorf("the part was answered with %v", r)
	}
	got, err := io.ReadAll(download.Body)
	if err != nil || !bytes.Equal(got, file.Bytes(0, file.Size)) {
		t.Errorf("the download was cut after %d bytes: %v", len(got), err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("the exit code is %d", code)
	}

	s = site.Start(t)
	if view := up.At(s).View(t); fmt.Sprint(view["received"]) != "[[0 0]]" {
		t.Errorf("after the restart there are %v", view["received"])
	}
}

// metric waits until a metric without labels has the value.
func metric(t *testing.T, s *rig.Server, name, value string) {
	t.Helper()
	process.Eventually(t, rig.Patience, name+" is "+value, func() error {
		resp, err := http.Get(s.URL + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) == 2 && strings.HasSuffix(f[0], name) {
				if f[1] == value {
					return nil
				}
				return fmt.Errorf("it is %s", f[1])
			}
		}
		return fmt.Errorf("it is not there: %w", err)
	})
}

func preflight(t *testing.T, s *rig.Server, origin string) rig.Reply {
	t.Helper()
	return s.Anybody(t).Do(t, http.MethodOptions, "/uploads", nil, "Origin", origin, "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization,content-type,idempotency-key")
}
