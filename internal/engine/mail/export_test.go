package mail

import "crypto/tls"

// Believe makes a server of mail known by the certificates of a test.
func Believe(s *Server, c *tls.Config) { s.trusted = c }

// Reach makes a server of mail answer at the address of a test.
func Reach(s *Server, address string) { s.dialAddress = address }
