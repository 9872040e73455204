// Package mail sends mail by SMTP (RFC 5321): with TLS from the first byte, or by STARTTLS, and in
// the clear to a server on this machine alone.
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

	"smartdrive/internal/base/drive"
)

// Options configure New. Address and From are required.
type Options struct {
	Address  string // host:port
	TLS      bool   // from the first byte; else STARTTLS, or nothing on this machine
	User     string // empty: nobody logs in
	Password string
	From     string // address of the sender
	// Timeout is how long one mail may take. Default: 30 s.
	Timeout time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Server sends mail. It is safe for concurrent use.
type Server struct {
	opt      Options
	believed *tls.Config // whose certificates are; nil: those of the system
	at       string      // where it is dialed
}

// New returns a Server. It does no I/O.
func New(opt Options) *Server {
	if opt.Timeout == 0 {
		opt.Timeout = 30 * time.Second
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Server{opt: opt, at: opt.Address}
}

// Message is a mail of plain text to one address.
type Message struct {
	ID       string // of the Message-ID, left of the @: a repeat has the same
	To       string
	Subject  string
	Text     string
	Language string
}

// RefusedError says that the server is there and does not take this mail, or this recipient.
type RefusedError struct {
	Code int // 400 to 599
	Err  error
}

// brokenOff is the code where there was no reply to a mail: "local error in processing".
const brokenOff = 451

func (e *RefusedError) Error() string { return fmt.Sprintf("the mail server refuses it: %v", e.Err) }

func (e *RefusedError) Unwrap() error { return e.Err }

// Permanent reports whether to send it again would change nothing.
func (e *RefusedError) Permanent() bool { return e.Code >= 500 }

// Send hands a mail over to the server: when it returns nil, the server has it. It returns a
// RefusedError, or Unavailable: the server cannot be reached, or takes no mail from this sender.
// What breaks off after that is a RefusedError, too: it may be for this mail alone.
func (s *Server) Send(parent context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(parent, s.opt.Timeout)
	defer cancel()
	c, err := s.open(ctx)
	if err != nil {
		return drive.Wrap(err, drive.Unavailable)
	}
	defer c.end()
	if err := s.hand(c.Client, m); err != nil {
		if parent.Err() != nil { // it is not the mail
			return drive.Wrap(fmt.Errorf("hand a mail over: %w", err), drive.Unavailable)
		}
		refused := &RefusedError{brokenOff, err}
		if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code >= 400 {
			refused.Code = reply.Code
		}
		return refused
	}
	_ = c.Quit() // it has the mail
	return nil
}

// Step is what is done before a mail can be handed over.
type Step string

// The steps.
const (
	StepReach  Step = "reach"  // connect, and be greeted
	StepSecure Step = "secure" // encrypt the connection
	StepLogin  Step = "login"
	StepSender Step = "sender" // say whose mail it is
)

// StepError says which step has failed.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string {
	return map[Step]string{
		StepReach: "reach the mail server", StepSecure: "encrypt the connection to the mail server",
		StepLogin: "log in to the mail server", StepSender: "begin a mail",
	}[e.Step] + ": " + e.Err.Error()
}

func (e *StepError) Unwrap() error { return e.Err }

// talk is a connection to the server.
type talk struct {
	*smtp.Client
	stop func() bool
}

func (t *talk) end() {
	t.stop()
	_ = t.Close()
}

// open takes all the steps. It returns a StepError.
func (s *Server) open(ctx context.Context) (*talk, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	t := &talk{c, context.AfterFunc(ctx, func() { _ = c.Close() })} // also while it is stuck in a write
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

// checkFor is how long a Check may take: somebody waits for it.
const checkFor = 10 * time.Second

// Check takes all steps of a mail but the mail: it names no recipient, so that nobody gets
// anything. It reports whether the connection is encrypted, and returns a StepError.
func (s *Server) Check(ctx context.Context) (encrypted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(checkFor, s.opt.Timeout))
	defer cancel()
	c, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer c.end()
	_, encrypted = c.TLSConnectionState()
	_, _ = c.Reset(), c.Quit() // it has said all that was asked
	return encrypted, nil
}

func (s *Server) dial(ctx context.Context) (*smtp.Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.at)
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

func (s *Server) host() string {
	host, _, err := net.SplitHostPort(s.opt.Address)
	if err != nil {
		return s.opt.Address
	}
	return host
}

// here reports whether the server is on this machine.
func (s *Server) here() bool {
	ip := net.ParseIP(s.host())
	return s.host() == "localhost" || ip != nil && ip.IsLoopback()
}

// domain is that of the sender.
func (s *Server) domain() string {
	_, domain, _ := strings.Cut(s.opt.From, "@")
	return domain
}

// name is what the client greets the server by.
func (s *Server) name() string {
	if d := s.domain(); d != "" {
		return d
	}
	return "localhost"
}

func (s *Server) tls() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.believed != nil {
		c = s.believed.Clone()
	}
	c.ServerName = s.host()
	return c
}

var errPlain = errors.New("it offers no STARTTLS, and mail does not go over a network in the clear")

// greet makes the connection safe, and logs in. It returns a StepError. Nothing listens in on this
// machine, and hardly a server there has a certificate that anybody believes: there it stays plain.
func (s *Server) greet(c *smtp.Client) error {
	if err := c.Hello(s.name()); err != nil {
		return &StepError{StepReach, err}
	}
	if !s.opt.TLS && !s.here() {
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

func (s *Server) hand(c *smtp.Client, m Message) error {
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

// folded puts each encoded word of a header on a line of its own: package mime does not, and of
// long names it makes lines that servers refuse (RFC 5322 §2.1.1, RFC 2047 §2).
func folded(words string) string { return strings.ReplaceAll(words, "?= =?", "?=\r\n =?") }

// compose writes a mail (RFC 5322, RFC 2045). What people have named is in the subject and in the
// text alone, and both are encoded: a line break in a name makes no header.
func (s *Server) compose(m Message) []byte {
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", "SmartDrive <" + s.opt.From + ">"},
		{"To", "<" + m.To + ">"},
		{"Subject", folded(mime.QEncoding.Encode("utf-8", m.Subject))},
		{"Date", s.opt.Now().Format(time.RFC1123Z)},
		{"Message-ID", "<" + m.ID + "@" + s.domain() + ">"},
		{"Auto-Submitted", "auto-generated"}, // RFC 3834: no answers of machines
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
