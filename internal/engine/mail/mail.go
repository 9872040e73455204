// Package mail sends mail by SMTP (RFC 5321), with TLS from the first byte or by STARTTLS. Only
// connections to a server on the same machine may be unencrypted.
package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Options configure New. Address and From are required.
type Options struct {
	Address  string // host:port
	TLS      bool   // TLS from the first byte; otherwise STARTTLS, or no encryption on the same machine
	User     string // empty: no login
	Password string
	From     string // address of the sender
	// Timeout bounds the sending of one mail. Default 30 s.
	Timeout time.Duration
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Server sends mail through an SMTP server. It is safe for concurrent use.
type Server struct {
	opt         Options
	trusted     *tls.Config // trusted certificates; nil: the system's
	dialAddress string      // address to dial
}

// New returns a Server. It does no I/O.
func New(opt Options) *Server {
	if opt.Timeout == 0 {
		opt.Timeout = 30 * time.Second
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Server{opt: opt, dialAddress: opt.Address}
}

// Message is a plain-text mail to one address.
type Message struct {
	ID       string // local part of the Message-ID; a repeated mail must have the same
	To       string // address of the recipient
	Subject  string
	Text     string
	Language string // of the text
}

// RefusedError says that the mail server rejected the mail or the recipient, temporarily (codes
// below 500) or for good.
type RefusedError struct {
	Code int   // SMTP reply code, 400 to 599
	Err  error // with the server's text
}

// brokenOff is the code for a mail without a reply: "local error in processing".
const brokenOff = 451

// Error returns the server's answer in a sentence.
func (e *RefusedError) Error() string { return fmt.Sprintf("the mail server refuses it: %v", e.Err) }

// Unwrap returns the error of package smtp.
func (e *RefusedError) Unwrap() error { return e.Err }

// Permanent reports whether the server refuses the mail for good (codes from 500 on), so that a
// retry would fail again.
func (e *RefusedError) Permanent() bool { return e.Code >= 500 }

// Send sends a mail and returns nil when the server has accepted it. Unavailable means that the
// server is unreachable or rejects the sender. A later failure, also a broken connection, is a
// RefusedError, because it may concern only this mail.
func (s *Server) Send(parent context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(parent, s.opt.Timeout)
	defer cancel()
	c, err := s.open(ctx)
	if err != nil {
		return drive.Wrap(err, drive.Unavailable)
	}
	defer c.end()
	if err := s.transmit(c.Client, m); err != nil {
		if parent.Err() != nil { // the caller's context ended: not a fault of the mail
			return drive.Wrap(fmt.Errorf("hand a mail over: %w", err), drive.Unavailable)
		}
		refused := &RefusedError{brokenOff, err}
		if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code >= 400 {
			refused.Code = reply.Code
		}
		return refused
	}
	_ = c.Quit() // the server has accepted the mail
	return nil
}

// Step is a step before a mail can be sent.
type Step string

// The steps.
const (
	StepReach  Step = "reach"  // connect and receive the greeting
	StepSecure Step = "secure" // encrypt the connection
	StepLogin  Step = "login"
	StepSender Step = "sender" // name the sender
)

// StepError says which step before the mail itself failed, and why; the mail has not been sent.
type StepError struct {
	Step Step // the step that failed
	Err  error
}

// Error names the step and its error.
func (e *StepError) Error() string {
	return map[Step]string{
		StepReach: "reach the mail server", StepSecure: "encrypt the connection to the mail server",
		StepLogin: "log in to the mail server", StepSender: "begin a mail",
	}[e.Step] + ": " + e.Err.Error()
}

// Unwrap returns the error of the step.
func (e *StepError) Unwrap() error { return e.Err }

// session is an open connection to the server on which a mail has begun. The caller must call end.
type session struct {
	*smtp.Client
	stop func() bool // ends the watch for the end of the context
}

// end closes the connection without a farewell and stops the watch of the context.
func (c *session) end() {
	c.stop()
	_ = c.Close()
}

// open connects, secures the connection, logs in and begins a mail from the configured sender. Its
// error is a StepError, and the connection is closed then; else the caller must call end. When ctx
// ends, the connection is closed, also during a later write.
func (s *Server) open(ctx context.Context) (*session, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	t := &session{c, context.AfterFunc(ctx, func() { _ = c.Close() })} // also unblocks a write
	if err = s.greet(c); err == nil {
		if err = c.Mail(s.opt.From); err != nil {
			err = &StepError{StepSender, err}
		}
	}
	if err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// checkTime bounds Check, because a person waits for it.
const checkTime = 10 * time.Second

// Check runs all steps of sending without a recipient, so that no mail is sent. It reports whether
// the connection is encrypted. Its error is a StepError.
func (s *Server) Check(ctx context.Context) (encrypted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(checkTime, s.opt.Timeout))
	defer cancel()
	c, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer c.end()
	_, encrypted = c.TLSConnectionState()
	_, _ = c.Reset(), c.Quit() // all steps have succeeded
	return encrypted, nil
}

// dial connects to the server, with TLS from the start if Options.TLS. The deadline of ctx becomes
// that of the connection. It fails with a StepError of StepReach or StepSecure.
func (s *Server) dial(ctx context.Context) (*smtp.Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.dialAddress)
	if err != nil {
		return nil, &StepError{StepReach, err}
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, &StepError{StepReach, errors.Join(err, conn.Close())}
		}
	}
	if s.opt.TLS {
		secure := tls.Client(conn, s.tls())
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, &StepError{StepSecure, errors.Join(err, conn.Close())}
		}
		conn = secure
	}
	c, err := smtp.NewClient(conn, s.host())
	if err != nil {
		return nil, &StepError{StepReach, errors.Join(err, conn.Close())}
	}
	return c, nil
}

// host returns the host of Options.Address, which the TLS certificate must name; the whole address
// if it has no port.
func (s *Server) host() string {
	host, _, err := net.SplitHostPort(s.opt.Address)
	if err != nil {
		return s.opt.Address
	}
	return host
}

// isLocal reports whether the server is localhost or a loopback address, so that a connection
// without TLS is acceptable.
func (s *Server) isLocal() bool {
	ip := net.ParseIP(s.host())
	return s.host() == "localhost" || ip != nil && ip.IsLoopback()
}

// domain returns the domain of the sender, or "".
func (s *Server) domain() string {
	_, domain, _ := strings.Cut(s.opt.From, "@")
	return domain
}

// name returns the name by which the client introduces itself to the server: the sender's domain,
// or "localhost".
func (s *Server) name() string {
	if d := s.domain(); d != "" {
		return d
	}
	return "localhost"
}

// tls returns the TLS configuration.
func (s *Server) tls() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.trusted != nil {
		c = s.trusted.Clone()
	}
	c.ServerName = s.host()
	return c
}

// errPlain reports a server without STARTTLS.
var errPlain = errors.New("it offers no STARTTLS, and mail does not go over a network in the clear")

// greet greets the server, encrypts the connection and logs in. Its error is a StepError. The
// connection to a server on this machine stays unencrypted: it cannot be overheard, and such a
// server rarely has a trusted certificate.
func (s *Server) greet(c *smtp.Client) error {
	if err := c.Hello(s.name()); err != nil {
		return &StepError{StepReach, err}
	}
	if !s.opt.TLS && !s.isLocal() {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return &StepError{StepSecure, errPlain}
		}
		if err := c.StartTLS(s.tls()); err != nil {
			return &StepError{StepSecure, err}
		}
	}
	if s.opt.User == "" {
		return nil
	}
	if err := c.Auth(smtp.PlainAuth("", s.opt.User, s.opt.Password, s.host())); err != nil {
		return &StepError{StepLogin, err}
	}
	return nil
}

// transmit sends recipient and content of m, after open has begun the mail. A nil error means that
// the server has accepted the mail; after an error of the last step it may have accepted it too.
func (s *Server) transmit(c *smtp.Client, m Message) error {
	if err := c.Rcpt(m.To); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(s.compose(m)); err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Close()
}

// fold puts each encoded word of a header on its own line. Package mime does not, and servers
// reject the long lines (RFC 5322 §2.1.1, RFC 2047 §2).
func fold(words string) string { return strings.ReplaceAll(words, "?= =?", "?=\r\n =?") }

// compose returns the mail (RFC 5322, RFC 2045). Names chosen by users appear only in the subject
// and the text. Both are encoded, so a line break in a name cannot add a header.
func (s *Server) compose(m Message) []byte {
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", "SmartDrive <" + s.opt.From + ">"},
		{"To", "<" + m.To + ">"},
		{"Subject", fold(mime.QEncoding.Encode("utf-8", m.Subject))},
		{"Date", s.opt.Now().Format(time.RFC1123Z)},
		{"Message-ID", "<" + m.ID + "@" + s.domain() + ">"},
		{"Auto-Submitted", "auto-generated"}, // RFC 3834: no automatic replies
		{"MIME-Version", "1.0"},
		{"Content-Language", m.Language},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "base64"},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	b.WriteString("\r\n")
	text := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(m.Text, "\n", "\r\n")))
	for len(text) > 76 { // RFC 2045 §6.8
		b.WriteString(text[:76] + "\r\n")
		text = text[76:]
	}
	b.WriteString(text + "\r\n")
	return b.Bytes()
}
