package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"
)

// certificate is the current TLS certificate; it can be replaced while connections are accepted.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// load reads the files and replaces the current certificate. On an error the current certificate
// stays.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read --tls-cert %s and --tls-key %s: %w", c.certFile, c.keyFile, err)
	}
	c.current.Store(&pair)
	return nil
}

// end returns the time when the current certificate expires, in Unix seconds; +Inf without a
// certificate.
func (c *certificate) end() float64 {
	if pair := c.current.Load(); pair != nil && pair.Leaf != nil {
		return float64(pair.Leaf.NotAfter.Unix())
	}
	return math.Inf(1)
}

// certificateSoon is how long before the expiry of a certificate warn logs a warning. It equals the
// alert of deploy/prometheus.
const certificateSoon = 14 * 24 * time.Hour

// warn logs a warning if the current certificate expires within certificateSoon, and an error if it
// has expired. Without a certificate it does nothing.
func (c *certificate) warn(log *slog.Logger) {
	pair := c.current.Load()
	if pair == nil || pair.Leaf == nil {
		return
	}
	switch left := time.Until(pair.Leaf.NotAfter); {
	case left <= 0:
		log.Error("the certificate of --tls-cert has expired and clients refuse it; replace the file and send SIGHUP", "file", c.certFile, "ended", pair.Leaf.NotAfter)
	case left < certificateSoon:
		log.Warn("the certificate of --tls-cert expires soon; replace the file and send SIGHUP", "file", c.certFile, "ends", pair.Leaf.NotAfter)
	}
}

// config returns a TLS configuration that always uses the current certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // see the package comment
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Reload reads the TLS certificate and key again (SIGHUP). On an error the current ones stay in
// use. Without TLS it does nothing.
func (s *Server) Reload() error {
	if s.opt.TLSCert == "" {
		return nil
	}
	if err := s.cert.load(); err != nil {
		return err
	}
	s.cert.warn(s.log)
	return nil
}
