package mail

import "crypto/tls"

// Believe makes the server trust the certificates of a test.
func Believe(s *Server, c *tls.Config) { s.trusted = c }

// Reach makes the server dial the address of a test.
func Reach(s *Server, address string) { s.dialAddress = address }
