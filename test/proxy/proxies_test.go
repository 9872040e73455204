package proxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"smartdrive/internal/testkit/servicetest"
	"smartdrive/test/process"
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
	start(t, exec.Command(path, "-e", "stderr", "-p", dir, "-c", filepath.Join(dir, "nginx.conf")))
}

// runCaddy does the same for Caddy.
func runCaddy(t *testing.T, s *site) {
	t.Helper()
	path := servicetest.Tool(t, "caddy")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Caddyfile"), "{\n\tadmin off\n\tauto_https disable_redirects\n\tlog {\n\t\tlevel WARN\n\t}\n}\n"+s.config)
	cmd := exec.Command(path, "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile")
	cmd.Env = append(process.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	start(t, cmd)
}

// start runs a command until the test ends.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // how a proxy ends is not the matter
		}()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
