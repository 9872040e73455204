package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/services"
)

// site is an installation behind a proxy, as people see it.
type site struct {
	dir      string // certificate, data, the client's home
	host     string // of the example: drive.example.org
	url      string // https://localhost:port[/drive]
	port     string // the proxy's
	upstream string // the server's host:port
	config   string // the proxy's, see use
	http     *http.Client
	server   *process.Server
	log      record // the server's

	restarted atomic.Bool // the proxy has ended by itself once
}

// record is a concurrency-safe buffer of written output.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func newSite(t *testing.T, example string) *site {
	t.Helper()
	host, path, _ := strings.Cut(example, "/")
	s := &site{dir: t.TempDir(), host: host, port: freePort(t), upstream: "127.0.0.1:" + freePort(t)}
	s.url = "https://localhost:" + s.port
	if path != "" {
		s.url += "/" + path
	}
	pool := s.certify(t)
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: time.Minute}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// use takes a file of deploy/ as the proxy's configuration, with its addresses and its certificate
// replaced. What is to be replaced and is not there fails the test: the file has changed and the
// test has not.
func (s *site) use(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	s.config = string(b)
	s.replace(t, "127.0.0.1:8320", s.upstream)
	if strings.HasPrefix(file, "nginx/") {
		s.replace(t, "listen 443 ssl", "listen 127.0.0.1:"+s.port+" ssl")
		s.replace(t, "server_name "+s.host, "server_name localhost")
		s.replace(t, "/etc/ssl/"+s.host+".pem", s.path("cert.pem"))
		s.replace(t, "/etc/ssl/private/"+s.host+".key", s.path("key.pem"))
	} else {
		s.replace(t, "\n"+s.host+" {", "\nhttps://localhost:"+s.port+" {\n\tbind 127.0.0.1\n\ttls "+s.path("cert.pem")+" "+s.path("key.pem"))
	}
}

func (s *site) replace(t *testing.T, old, with string) {
	t.Helper()
	if !strings.Contains(s.config, old) {
		t.Fatalf("the example does not contain %q", old)
	}
	s.config = strings.ReplaceAll(s.config, old, with)
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

const password = process.Password

// serve starts the server with the flags that the example's head names, waits until it answers
// through the proxy, and logs in.
func (s *site) serve(t *testing.T) {
	t.Helper()
	var err error
	s.server, err = process.Start(process.Options{
		Binary: process.Binary(t), Data: s.path("data"), Listen: s.upstream,
		Args: []string{"--base-url", s.url, "--trusted-proxies", "127.0.0.1", "--min-free", "0"},
		Env:  []string{"SMARTDRIVE_ADMIN_PASSWORD=" + password}, Log: io.MultiWriter(&s.log, t.Output()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.server.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := s.server.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	s.answers(t)
	s.must(t, "login", s.url, "--user", "admin", "--password-stdin")
}

// answers waits for the proxy.
func (s *site) answers(t *testing.T) {
	t.Helper()
	process.Eventually(t, 3*time.Minute, "the proxy answers", func() error {
		resp, err := s.http.Get(s.url + "/healthz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// cli runs the client with its own home directory and returns its output and exit code.
func (s *site) cli(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // 200 MiB through TLS, four times at once on a busy machine
	defer cancel()
	cmd := exec.CommandContext(ctx, process.Binary(t), args...)
	cmd.Env = append(process.Environ(), "HOME="+s.dir, "XDG_CONFIG_HOME="+s.path("config"), "SSL_CERT_FILE="+s.path("cert.pem"), "LANG=en")
	cmd.Stdin = strings.NewReader(password + "\n")
	out, err := cmd.CombinedOutput()
	code, err := process.Exit(err)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), code
}

func (s *site) must(t *testing.T, args ...string) string {
	t.Helper()
	out, code := s.cli(t, args...)
	if code != 0 {
		t.Fatalf("smartdrive %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// file makes a file of pseudo-random bytes in the client's home, or returns the one that is there.
func (s *site) file(t *testing.T, name string, size int64) string {
	t.Helper()
	path := s.path(name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return path
	}
	if err == nil {
		_, err = io.CopyN(f, mathrand.NewChaCha8([32]byte{byte(size)}), size)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// link requests a signed link to a file.
func (s *site) link(t *testing.T, path string) string {
	t.Helper()
	var kept struct{ Token string }
	if err := json.Unmarshal(read(t, s.path("config/smartdrive/config.json")), &kept); err != nil {
		t.Fatal(err)
	}
	var node struct{ ID string }
	s.call(t, kept.Token, http.MethodGet, "/api/v1/nodes?path="+path, "", &node)
	var link struct{ URL string }
	s.call(t, kept.Token, http.MethodPost, "/api/v1/nodes/"+node.ID+"/links", `{"expires_in": 600, "disposition": "attachment"}`, &link)
	return link.URL
}

func (s *site) call(t *testing.T, token, method, path, body string, out any) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %v\n%s", method, path, resp.Status, err, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
}

// certify creates a self-signed certificate for localhost, which the proxy presents and the client
// trusts.
func (s *site) certify(t *testing.T) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		var b bytes.Buffer
		if err := pem.Encode(&b, block); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path(name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(b.Bytes())
	}
	return pool
}

// freePort returns a free TCP port.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := services.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}
