//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.org/smartdrive/test/process"
)

// server is a running server process to measure.
type server struct {
	pid   int
	url   string
	token string // of the real server
	data  string // data directory
	proc  *process.Server
}

// startBare starts this binary as the bare server.
func startBare(b *testing.B) *server {
	b.Helper()
	s := &server{data: b.TempDir()}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bareDir+"="+s.data)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(b, err)
	s.pid, s.url = cmd.Process.Pid, strings.TrimSpace(line)
	return s
}

const password = process.Password

// startReal starts the real binary and signs in as its administrator.
func startReal(b *testing.B, data string, flags ...string) *server {
	b.Helper()
	s, _ := launch(b, data, flags...)
	s.login(b, "admin")
	return s
}

// launch starts the real binary on a data directory and returns the time until it was ready.
func launch(b *testing.B, data string, flags ...string) (s *server, ready time.Duration) {
	b.Helper()
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	must(b, err)
	binary := process.Build(b, "example.org/smartdrive/cmd/smartdrive", "-pgo=../cmd/smartdrive/serve.pgo") // as "make build" does
	start := time.Now()
	p, err := process.Start(process.Options{
		Binary: binary, Data: data, Listen: "127.0.0.1:0", Args: append([]string{"--default-quota", "1TiB", "--blob-grace", "1s"}, flags...),
		Env: []string{"SMARTDRIVE_ADMIN_PASSWORD=" + password}, Log: log,
	})
	must(b, err)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	url, err := p.Ready(ctx)
	ready = time.Since(start)
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		b.Fatalf("%v\n%s", err, text)
	}
	s = &server{pid: p.PID(), url: url, data: data, proc: p}
	b.Cleanup(func() {
		s.stop(b)
		_ = log.Close()
	})
	return s, ready
}

// stop stops the real server. It may be called more than once.
func (s *server) stop(b *testing.B) {
	b.Helper()
	if s.proc == nil {
		return
	}
	if code, err := s.proc.Stop(20 * time.Second); err != nil || code != 0 {
		b.Errorf("the server ended with code %d: %v", code, err)
	}
	s.proc = nil
}

// user creates a user and returns the server with this user signed in.
func (s *server) user(b *testing.B, name string) *server {
	b.Helper()
	s.call(b, "POST", "/admin/users", map[string]any{"name": name, "password": password}, nil)
	u := *s
	u.proc, u.token = nil, ""
	u.login(b, name)
	return &u
}

func (s *server) login(b *testing.B, name string) {
	b.Helper()
	var session struct{ Token string }
	s.call(b, "POST", "/sessions", map[string]any{"name": name, "password": password}, &session)
	s.token = session.Token
}

// call sends a request of the native API, which must succeed, and decodes the response into out
// unless out is nil.
func (s *server) call(b *testing.B, method, path string, in, out any) {
	b.Helper()
	body, err := json.Marshal(in)
	must(b, err)
	req, err := http.NewRequestWithContext(b.Context(), method, s.url+"/api/v1"+path, bytes.NewReader(body))
	must(b, err)
	req.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	must(b, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(b, err)
	if resp.StatusCode >= 300 {
		b.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
	if out != nil {
		must(b, json.Unmarshal(text, out))
	}
}

// cpu returns the CPU time that the process has used (clock_getcpuclockid(3)).
func (s *server) cpu(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	must(b, unix.ClockGettime(int32(^s.pid<<3|2), &ts))
	return time.Duration(ts.Nano())
}

// counter returns a number from a line of a file in the process's /proc directory, such as "VmHWM"
// of "status".
func (s *server) counter(b *testing.B, file, name string) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.pid, file))
	must(b, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			must(b, err)
			return n
		}
	}
	b.Fatalf("no %s in %s", name, file)
	return 0
}

// metric returns a value from /metrics.
func (s *server) metric(b *testing.B, name string) float64 {
	b.Helper()
	resp, err := http.Get(s.url + "/metrics")
	must(b, err)
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			must(b, err)
			return v
		}
	}
	b.Fatalf("no metric %s", name)
	return 0
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
