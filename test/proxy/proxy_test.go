// Package proxy runs the real binary behind a real nginx and a real Caddy, with the files of
// deploy/ as they are but for addresses and certificates, and uses it through them with the real
// client: what docs/operations.md tells operators to do works. It has tests only.
package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

const mib = 1 << 20

func TestThroughProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		site string // the host and path of the example's --base-url
		run  func(t *testing.T, s *site)
		file string // below deploy
	}{
		{"nginx", "drive.example.org", runNginx, "nginx/smartdrive.conf"},
		{"nginx below a path", "example.org/drive", runNginx, "nginx/smartdrive-subpath.conf"},
		{"caddy", "drive.example.org", runCaddy, "caddy/Caddyfile"},
		{"caddy below a path", "example.org/drive", runCaddy, "caddy/Caddyfile.subpath"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.site)
			s.use(t, c.file)
			c.run(t, s)
			s.serve(t)
			checkTransfers(t, s)
			checkRange(t, s)
			checkForwarded(t, s)
		})
	}
}

// checkTransfers sends 200 MiB and names that proxies like to alter, and fetches them again.
func checkTransfers(t *testing.T, s *site) {
	t.Helper()
	big := s.file(t, "big.bin", 200*mib)
	s.must(t, "put", "--force", big, "/big.bin")
	back := filepath.Join(t.TempDir(), "back.bin")
	s.must(t, "get", "/big.bin", back)
	if !bytes.Equal(read(t, back), read(t, big)) {
		t.Error("what came back is not what was sent")
	}
	for _, name := range []string{"100%25 sure?.txt", "a+b & c#d.txt", "文件 (2).txt", "..hidden;v=1"} {
		local := s.file(t, name, 1000)
		s.must(t, "put", local, "/")
		if got := s.must(t, "ls", "/"); !strings.Contains(got, name) {
			t.Errorf("%q arrived as something else:\n%s", name, got)
		}
		s.must(t, "get", "/"+name, filepath.Join(t.TempDir(), "x"))
	}
}

// checkRange fetches a piece of a file by a signed link, which carries the address that people use.
func checkRange(t *testing.T, s *site) {
	t.Helper()
	link := s.link(t, "/big.bin")
	if !strings.HasPrefix(link, s.url+"/") {
		t.Fatalf("the link %s does not begin with %s", link, s.url)
	}
	const first, last = 150*mib - 3, 150*mib + 100_000
	req, err := http.NewRequest(http.MethodGet, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, last))
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusPartialContent {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	if want := read(t, filepath.Join(s.dir, "big.bin"))[first : last+1]; !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, not the %d that were asked for", len(got), len(want))
	}
}

// checkForwarded sends requests from 127.0.0.2, so that the client's address differs from the
// proxy's. The server takes the client's address from the proxy and ignores a header that the
// client sent. It does not treat requests through a proxy on the same machine as local ones.
func checkForwarded(t *testing.T, s *site) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // elsewhere there is only one loopback address
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	transport := s.http.Transport.(*http.Transport).Clone()
	transport.DialContext = dialer.DialContext
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", "198.51.100.7") // what a client says of itself
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		t.Error("/metrics is shown to everybody behind the proxy")
	}
	process.Eventually(t, time.Minute, "the request is logged with its client's address", func() error {
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, "/metrics") {
				if !strings.Contains(line, "client=127.0.0.2 ") {
					t.Fatalf("the client was 127.0.0.2: %s", line)
				}
				return nil
			}
		}
		return errors.New("no line about it yet")
	})
}

// A proxy with its default limits refuses each part. The client says that the proxy refused it and
// which setting to change.
func TestBodyLimitIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, "drive.example.org")
	s.use(t, "nginx/smartdrive.conf")
	s.replace(t, "client_max_body_size 0;", "client_max_body_size 4m;")
	runNginx(t, s)
	s.serve(t)
	out, code := s.cli(t, "put", "--give-up", "2s", s.file(t, "big.bin", 40*mib), "/")
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, word := range []string{"nginx", "413", "client_max_body_size", "--part-size"} {
		if !strings.Contains(out, word) {
			t.Errorf("it does not say %q:\n%s", word, out)
		}
	}
	s.must(t, "put", "--part-size", "2MiB", filepath.Join(s.dir, "big.bin"), "/small-parts.bin") // what it advises
}

// The client distinguishes a server that is down from a proxy that refuses.
func TestServerDownIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, "drive.example.org")
	s.use(t, "nginx/smartdrive.conf")
	runNginx(t, s)
	s.serve(t)
	s.server.Kill()
	out, code := s.cli(t, "put", "--give-up", "1s", s.file(t, "f", 1000), "/")
	if code != 1 || !strings.Contains(out, "502") || !strings.Contains(out, "is the server running") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
