package server

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
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
	return s.cert.load()
}
