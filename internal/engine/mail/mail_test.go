package mail_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/mail"
)

// host is a server of mail that speaks as little SMTP as it takes.
type host struct {
	address  string
	secure   *tls.Config
	believed *tls.Config // by clients
	implicit bool
	near     bool              // clients know it as this machine
	plain    bool              // offers no STARTTLS
	answers  map[string]string // to a command, instead of 250; "cut": it hangs up
	hung     func()            // is called where the answer is to hang

	mu   sync.Mutex
	took []string
	said []string
}

func newHost(t *testing.T, h *host) *host {
	t.Helper()
	site := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, of 127.0.0.1
	t.Cleanup(site.Close)
	pool := x509.NewCertPool()
	pool.AddCert(site.Certificate())
	h.secure, h.believed = &tls.Config{Certificates: site.TLS.Certificates}, &tls.Config{RootCAs: pool}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = l.Addr().String()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { h.talk(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return h
}

func (h *host) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if h.implicit {
		conn = tls.Server(conn, h.secure)
	}
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 here")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		h.mu.Lock()
		h.said = append(h.said, line)
		h.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		switch answer := h.answers[verb]; {
		case answer == "hang":
			h.hung()
			_, _ = in.ReadString('\n')
			return
		case answer == "cut":
			return
		case answer != "":
			say(answer)
		case verb == "EHLO":
			say("250-here")
			if _, safe := conn.(*tls.Conn); !safe && !h.plain {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case verb == "STARTTLS":
			say("220 go")
			conn = tls.Server(conn, h.secure)
			in = bufio.NewReader(conn)
		case verb == "AUTH":
			say("235 in")
		case verb == "DATA":
			say("354 go on")
			var b strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				b.WriteString(line)
			}
			h.mu.Lock()
			h.took = append(h.took, b.String())
			h.mu.Unlock()
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

func (h *host) server(user string) *mail.Server {
	address := h.address
	if !h.near { // the certificate is of this name, too
		address = "example.com:25"
	}
	s := mail.New(mail.Options{
		Address: address, TLS: h.implicit, User: user, Password: "secret", From: "drive@example.org",
		Now: func() time.Time { return time.UnixMilli(1_800_000_000_000) },
	})
	mail.Believe(s, h.believed)
	mail.Reach(s, h.address)
	return s
}

var letter = mail.Message{ID: "x-1", To: "bob@example.org", Subject: "文件\r\nBcc: eve@example.org", Text: "一\n.\nBcc: eve@example.org\n", Language: "zh-CN"}

// A mail arrives unchanged over TLS and STARTTLS; names chosen by users cannot add headers.
func TestMailArrives(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*host{"TLS": {implicit: true}, "STARTTLS": {}, "on this machine": {near: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, h)
			if name == "on this machine" { // where nobody makes certificates that clients believe
				h.believed = nil
			}
			if err := h.server("drive").Send(t.Context(), letter); err != nil {
				t.Fatal(err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.took) != 1 {
				t.Fatalf("%d mails came", len(h.took))
			}
			m, err := netmail.ReadMessage(strings.NewReader(h.took[0]))
			if err != nil {
				t.Fatal(err)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
			if err != nil || !strings.Contains(subject, "文件") || m.Header.Get("Bcc") != "" || m.Header.Get("Message-Id") != "<x-1@example.org>" || m.Header.Get("To") != "<bob@example.org>" {
				t.Errorf("the header is %v, %v", m.Header, err)
			}
			text, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, m.Body))
			if err != nil || strings.ReplaceAll(string(text), "\r\n", "\n") != letter.Text {
				t.Errorf("the text is %q, %v", text, err)
			}
			if safe := strings.Contains(strings.Join(h.said, " "), "STARTTLS"); safe != (name == "STARTTLS") {
				t.Errorf("said %q", h.said)
			}
			if h.said[0] != "EHLO example.org" {
				t.Errorf("it is greeted by %q", h.said[0])
			}
		})
	}
}

// TestWhatFails: a refused recipient differs from an unreachable server, and neither takes longer
// than the timeout of a mail.
func TestWhatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers map[string]string
		code    int // zero: the server is away
	}{
		"no such user": {map[string]string{"RCPT": "550 no such user"}, 550},
		"come later":   {map[string]string{"RCPT": "451 greylisted"}, 451},
		"goes away":    {map[string]string{"MAIL": "421 closing"}, 0},
		"wrong login":  {map[string]string{"AUTH": "535 who are you"}, 0},
		"hangs":        {map[string]string{"MAIL": "hang"}, 0},
		"not from you": {map[string]string{"MAIL": "550 you may not send as that"}, 0},
		"no more":      {map[string]string{"MAIL": "452 your quota of today is used up"}, 0},
		// What goes wrong at one mail is no outage: the next person's may go through.
		"at a recipient": {map[string]string{"RCPT": "cut"}, 451},
		"at a mail":      {map[string]string{"DATA": "cut"}, 451},
		"closes":         {map[string]string{"RCPT": "421 closing"}, 421},
		"is shut down":   {map[string]string{"RCPT": "hang"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := newHost(t, &host{implicit: true, answers: c.answers, hung: cancel})
			err := h.server("drive").Send(ctx, letter)
			var refused *mail.RefusedError
			if errors.As(err, &refused) != (c.code != 0) || refused != nil && (refused.Code != c.code || refused.Permanent() != (c.code >= 500)) {
				t.Errorf("%v", err)
			}
			if c.code == 0 && !drive.IsKind(err, drive.Unavailable) {
				t.Errorf("%v is not an outage", err)
			}
		})
	}
}

// TestAStrangerGetsNothing: a server with an untrusted certificate gets neither login nor mail.
func TestAStrangerGetsNothing(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*host{"TLS": {implicit: true}, "STARTTLS": {}, "in the clear": {plain: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, h)
			h.believed = nil
			if err := h.server("drive").Send(t.Context(), letter); !drive.IsKind(err, drive.Unavailable) {
				t.Errorf("%v", err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.took) != 0 || strings.Contains(strings.Join(h.said, " "), "AUTH") {
				t.Errorf("it was told %q", h.said)
			}
		})
	}
}

// TestCheck: Check returns the failed step and sends no mail.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host      *host // nil: one that has nothing special
		stranger  bool
		step      mail.Step // empty: all is well
		encrypted bool
	}{
		"TLS":               {host: &host{implicit: true}, encrypted: true},
		"STARTTLS":          {encrypted: true},
		"on this machine":   {host: &host{near: true}},
		"is not there":      {host: &host{answers: map[string]string{"EHLO": "cut", "HELO": "cut"}}, step: mail.StepReach},
		"is busy":           {host: &host{answers: map[string]string{"EHLO": "421 later", "HELO": "421 later"}}, step: mail.StepReach},
		"no STARTTLS":       {host: &host{plain: true}, step: mail.StepSecure},
		"stranger":          {stranger: true, step: mail.StepSecure},
		"stranger with TLS": {host: &host{implicit: true}, stranger: true, step: mail.StepSecure},
		"wrong login":       {host: &host{answers: map[string]string{"AUTH": "535 who are you"}}, step: mail.StepLogin},
		"not from you":      {host: &host{answers: map[string]string{"MAIL": "550 you may not send as that"}}, step: mail.StepSender},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.host == nil {
				c.host = &host{}
			}
			h := newHost(t, c.host)
			if c.stranger {
				h.believed = nil
			}
			encrypted, err := h.server("drive").Check(t.Context())
			step := mail.Step("")
			if failed, ok := errors.AsType[*mail.StepError](err); ok {
				step = failed.Step
			}
			if step != c.step || (err == nil) != (c.step == "") || encrypted != c.encrypted {
				t.Errorf("encrypted %v, %v at %q", encrypted, err, step)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if said := strings.Join(h.said, " "); strings.Contains(said, "RCPT") || strings.Contains(said, "DATA") || err == nil && !strings.HasSuffix(said, "MAIL FROM:<drive@example.org> RSET QUIT") {
				t.Errorf("said %q", h.said)
			}
		})
	}
}

// TestCheckOfAServerThatHangs: a hanging server is given up after the timeout, or when the caller
// cancels.
func TestCheckOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := newHost(t, &host{answers: map[string]string{"MAIL": "hang"}, hung: cancel})
	if _, err := h.server("drive").Check(ctx); err == nil {
		t.Error("it is well")
	}
}
