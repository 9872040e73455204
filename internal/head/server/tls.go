package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"
)

// certificate is the one in use; it can be changed while connections are made.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// load reads the files; on an error the certificate in use stays.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read --tls-cert %s and --tls-key %s: %w", c.certFile, c.keyFile, err)
	}
	c.current.Store(&pair)
	return nil
}

// end returns the expiry of the certificate in use in Unix seconds, or +Inf without a certificate.
func (c *certificate) end() float64 {
	if pair := c.current.Load(); pair != nil && pair.Leaf != nil {
		return float64(pair.Leaf.NotAfter.Unix())
	}
	return math.Inf(1)
}

// certificateSoon is how long before its end a certificate is warned of: the alarm of
// deploy/prometheus is as early.
const certificateSoon = 14 * 24 * time.Hour

// warn logs that the certificate in use ends soon, or has ended.
func (c *certificate) warn(log *slog.Logger) {
	pair := c.current.Load()
	if pair == nil || pair.Leaf == nil {
		return
	}
	switch left := time.Until(pair.Leaf.NotAfter); {
	case left <= 0:
		log.Error("the certificate of --tls-cert has ended: clients refuse it; put a new one in place and send SIGHUP", "file", c.certFile, "ended", pair.Leaf.NotAfter)
	case left < certificateSoon:
		log.Warn("the certificate of --tls-cert ends soon; put a new one in place and send SIGHUP", "file", c.certFile, "ends", pair.Leaf.NotAfter)
	}
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // see the package comment
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Reload reads the TLS certificate and key again (SIGHUP). On an error the old ones stay in use.
// Without TLS it does nothing.
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
