package system_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// certify writes a certificate for 127.0.0.1 and its key into a directory.
func certify(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "drive"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	write(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serial returns the serial number of the certificate on a new connection.
func serial(t *testing.T, s *rig.Server) (int64, error) {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if p := conn.ConnectionState().NegotiatedProtocol; p != "" && p != "http/1.1" {
		t.Errorf("it speaks %s", p)
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func hangUp(t *testing.T, s *rig.Server) {
	t.Helper()
	p, err := os.FindProcess(s.PID())
	if err == nil {
		err = p.Signal(syscall.SIGHUP)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// healthy sends a request on a connection, which must be open and stay open.
func healthy(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: drive\r\n\r\n"); err != nil {
		t.Fatalf("the connection is dead: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if err != nil {
		t.Fatalf("the connection is dead: %v", err)
	}
}

func TestSIGHUPReadsTheCertificateAgain(t *testing.T) {
	t.Parallel()
	dir := rig.Dir(t)
	certify(t, dir, 1)
	s := rig.New(t, "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem")).Start(t)
	if !strings.HasPrefix(s.URL, "https://") {
		t.Fatalf("the URL is %s", s.URL)
	}
	if n, err := serial(t, s); n != 1 || err != nil {
		t.Fatalf("the certificate is %d, %v", n, err)
	}
	old, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	healthy(t, old) // before the server closes the idle connection

	certify(t, dir, 2)
	hangUp(t, s)
	process.Eventually(t, rig.Patience, "the new certificate is shown", func() error {
		if n, err := serial(t, s); n != 2 || err != nil {
			return fmt.Errorf("it is %d, %w", n, err)
		}
		return nil
	})
	healthy(t, old)

	// An unreadable file does not stop the server.
	write(t, filepath.Join(dir, "key.pem"), []byte("nonsense"))
	hangUp(t, s)
	process.Eventually(t, rig.Patience, "the log says that it could not be loaded", func() error {
		if !strings.Contains(s.Log.String(), "could not be loaded") {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	if n, err := serial(t, s); n != 2 || err != nil {
		t.Errorf("the certificate is %d, %v", n, err)
	}
	s.End(t)
}

func TestUnreadableCertificateIsRefused(t *testing.T) {
	t.Parallel()
	dir := rig.Dir(t)
	site := rig.New(t, "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	site.Refused(t, "cert.pem")
}
