package proxy

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/process"
)

// runNginx runs nginx as an ordinary process of this test, with all its files in a directory of the
// test.
func runNginx(t *testing.T, s *site) {
	t.Helper()
	path := servicetest.Tool(t, "nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx")
	dir := t.TempDir()
	conf := "daemon off; pid " + dir + "/pid; error_log stderr warn; worker_processes 1;\n"
	if os.Getuid() == 0 {
		conf += "user root;\n" // else the worker is another user, and cannot enter the test's directory
	}
	conf += "events {}\nhttp {\naccess_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += temp + "_temp_path " + dir + "/" + temp + ";\n"
	}
	write(t, filepath.Join(dir, "nginx.conf"), conf+s.config+"}\n")
	start(t, s, exec.Command(path, "-e", "stderr", "-p", dir, "-c", filepath.Join(dir, "nginx.conf")))
}

// runCaddy does the same for Caddy.
func runCaddy(t *testing.T, s *site) {
	t.Helper()
	path := servicetest.Tool(t, "caddy")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Caddyfile"), "{\n\tadmin off\n\tauto_https disable_redirects\n\tlog {\n\t\tlevel WARN\n\t}\n}\n"+s.config)
	cmd := exec.Command(path, "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile")
	cmd.Env = append(process.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	start(t, s, cmd)
}

// start runs a proxy until the test ends.
func start(t *testing.T, s *site, cmd *exec.Cmd) {
	t.Helper()
	p := &proxy{t: t, s: s}
	if err := p.run(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
}

// proxy is a running proxy. It is restarted once if it panics, which is not SmartDrive's fault.
type proxy struct {
	t *testing.T
	s *site

	mu       sync.Mutex
	cmd      *exec.Cmd
	ended    chan struct{} // closed when it has ended and is not started again
	stopping bool
}

func (p *proxy) run(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = p.t.Output(), io.MultiWriter(&said, p.t.Output())
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // how a proxy ends is not the matter, but for this:
		if !panicked(said.String()) || !p.again(cmd) {
			close(ended)
		}
	}()
	return nil
}

// panicked reports whether the output of a Go program shows a panic.
func panicked(said string) bool {
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return true
		}
	}
	return false
}

// again starts a proxy once more, if it was not.
func (p *proxy) again(was *exec.Cmd) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping || !p.s.restarted.CompareAndSwap(false, true) {
		return false
	}
	p.t.Log("the proxy has ended with a panic of its own, and is started once more")
	cmd := exec.Command(was.Path, was.Args[1:]...)
	cmd.Env = was.Env
	return p.run(cmd) == nil
}

func (p *proxy) stop() {
	p.mu.Lock()
	p.stopping = true
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
	}
}

// A proxy that ends with a panic is started again, once.
func TestPanickedProxyIsRestarted(t *testing.T) {
	t.Parallel()
	shell := servicetest.Tool(t, "sh")
	file := filepath.Join(t.TempDir(), "runs")
	s := &site{}
	start(t, s, exec.Command(shell, "-c", "echo run >> "+file+"; echo 'panic: of its own' >&2; exit 2"))
	process.Eventually(t, time.Minute, "it has run twice", func() error {
		b, err := os.ReadFile(file)
		if err == nil && string(b) != "run\nrun\n" {
			err = fmt.Errorf("it has said %q", b)
		}
		return err
	})
	if !s.restarted.Load() {
		t.Error("whoever asked it does not learn of it")
	}
	if panicked("a panic: no\n") || panicked("") {
		t.Error("any end counts as a panic")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
