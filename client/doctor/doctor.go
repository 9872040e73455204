// Package doctor looks at a SmartDrive from outside, through whatever stands before it, and says
// what is wrong there and which line of which proxy to change.
package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options say what is looked at.
type Options struct {
	BaseURL string // such as https://drive.example.org or https://example.org/drive
	Token   string // an access token of anybody
	// Wait is how long an answer is waited for that the server gives late on purpose, to see
	// whether a proxy gives up before: at most 90 s. Zero: that is not looked at.
	Wait time.Duration
	// HTTP makes the requests. Default: a client with HTTP/1.1.
	HTTP *http.Client
	Now  func() time.Time // default time.Now
}

// Level says how bad something is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // some clients, or some files, suffer from it
	Failure Level = "failure"
	Unknown Level = "unknown" // it could not be looked at
)

// Finding is what came of one check.
type Finding struct {
	Check  string            `json:"check"`
	Level  Level             `json:"level"`
	Says   string            `json:"says"`
	Change map[string]string `json:"change,omitempty"` // the line to change, by proxy
}

// Run makes all checks, one after the other but for the slow one.
func Run(ctx context.Context, o Options) []Finding {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		o.HTTP = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, Protocols: protocols, DisableCompression: true}}
	}
	careful := *o.HTTP
	careful.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &careful
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	x := &examination{Options: o}
	reached := x.reach(ctx)
	if reached.Level == Failure {
		return []Finding{reached}
	}
	late := make(chan Finding, 1)
	go func() { late <- x.late(ctx) }()
	all := []Finding{reached}
	for _, check := range []func(context.Context) Finding{
		x.tls, x.hsts, x.address, x.clock, x.disk, x.mail, x.bodySize, x.requestBuffering, x.chunked, x.responseBuffering, x.methods, x.headers, x.ranges, x.paths, x.login,
	} {
		all = append(all, check(ctx))
	}
	return append(all, <-late)
}

// examination is one run.
type examination struct {
	Options

	first http.Header // of the first answer
	state *tls.ConnectionState
	seen  seen // of the first request
}

// seen is what the server says of a request.
type seen struct {
	Method  string    `json:"method"`
	Headers []string  `json:"headers"`
	Host    string    `json:"host"`
	Scheme  string    `json:"scheme"`
	Client  string    `json:"client"`
	Bytes   int64     `json:"bytes"`
	Chunked bool      `json:"chunked"`
	SpanMS  int64     `json:"span_ms"`
	Now     time.Time `json:"now"`

	answer answer
}

func ok(check, says string, args ...any) Finding {
	return Finding{Check: check, Level: OK, Says: fmt.Sprintf(says, args...)}
}

func failed(check string, err error) Finding {
	return Finding{Check: check, Level: Unknown, Says: "could not be looked at: " + err.Error()}
}

// answer is what came back of a request.
type answer struct {
	code   int
	status string
	header http.Header
	state  *tls.ConnectionState
	body   []byte
}

// ask sends a request to a probe.
func (x *examination) ask(ctx context.Context, method, path string, body io.Reader, header map[string]string) (answer, error) {
	return x.askAt(ctx, method, "probe/"+path, body, header)
}

// askAt is ask of any address of the API.
func (x *examination) askAt(ctx context.Context, method, path string, body io.Reader, header map[string]string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, x.BaseURL+"/api/v1/"+path, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+x.Token)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := x.HTTP.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	const most = 1 << 20 // bytes: far more than a probe says
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return answer{resp.StatusCode, resp.Status, resp.Header, resp.TLS, raw}, err
}

// echo is ask of the echo: what the server has seen.
func (x *examination) echo(ctx context.Context, method string, body io.Reader, header map[string]string) (s seen, err error) {
	a, err := x.ask(ctx, method, "echo", body, header)
	if err != nil {
		return s, err
	}
	s.answer = a
	if a.code != http.StatusOK {
		return s, fmt.Errorf("%s answered %s", orUnknown(a.header.Get("Server")), a.status)
	}
	return s, json.Unmarshal(a.body, &s)
}

func orUnknown(server string) string {
	if server == "" {
		return "something"
	}
	return server
}

func (x *examination) reach(ctx context.Context) Finding {
	s, err := x.echo(ctx, http.MethodGet, nil, nil)
	switch {
	case s.answer.code == http.StatusUnauthorized:
		return Finding{
			Check: "reach", Level: Failure,
			Says:   "the server does not take the token: log in, or give another --token. If the token is right, a proxy drops the header Authorization",
			Change: change("", "", "CGIPassAuth On  # and no AuthType of Apache's own before the drive", ""),
		}
	case s.answer.code != 0 && err != nil:
		return Finding{Check: "reach", Level: Failure, Says: err.Error() + ": is the address right, does the proxy point to SmartDrive, and is SmartDrive of this version?"}
	case err != nil:
		return Finding{Check: "reach", Level: Failure, Says: err.Error()}
	}
	x.seen, x.first, x.state = s, s.answer.header, s.answer.state
	via := ""
	if server := s.answer.header.Get("Server"); server != "" {
		via = " through " + server
	}
	return ok("reach", "the server answers at %s%s", x.BaseURL, via)
}

func (x *examination) tls(context.Context) Finding {
	if x.state == nil {
		return Finding{Check: "tls", Level: Warning, Says: "the address is not encrypted (http): passwords and files can be read on the way, and some clients refuse it"}
	}
	left := x.state.PeerCertificates[0].NotAfter.Sub(x.Now())
	switch {
	case x.state.Version < tls.VersionTLS12:
		return Finding{
			Check: "tls", Level: Warning, Says: "the connection uses " + tls.VersionName(x.state.Version),
			Change: change("ssl_protocols TLSv1.2 TLSv1.3;", "", "SSLProtocol -all +TLSv1.2 +TLSv1.3", "minVersion: VersionTLS12"),
		}
	case left < 14*24*time.Hour:
		return Finding{Check: "tls", Level: Warning, Says: fmt.Sprintf("the certificate ends in %d days", int(left.Hours()/24))}
	}
	return ok("tls", "%s, the certificate is good for %d days", tls.VersionName(x.state.Version), int(left.Hours()/24))
}

func (x *examination) hsts(context.Context) Finding {
	if x.state != nil && x.first.Get("Strict-Transport-Security") == "" {
		return Finding{
			Check: "hsts", Level: Warning, Says: "Strict-Transport-Security is not sent: a browser may be led to http",
			Change: change(`add_header Strict-Transport-Security "max-age=31536000" always;`, `header Strict-Transport-Security "max-age=31536000"`,
				`Header always set Strict-Transport-Security "max-age=31536000"`, "headers.stsSeconds: 31536000"),
		}
	}
	return ok("hsts", "as it should be")
}

// address checks that the server knows how people reach it.
func (x *examination) address(context.Context) Finding {
	u, err := url.Parse(x.BaseURL)
	if err != nil {
		return failed("address", err)
	}
	if x.seen.Scheme == u.Scheme && strings.EqualFold(x.seen.Host, u.Host) {
		return ok("address", "the server knows its address as %s://%s, and the client's as %s", x.seen.Scheme, x.seen.Host, x.seen.Client)
	}
	return Finding{
		Check: "address", Level: Warning,
		Says: fmt.Sprintf("the server thinks that its address is %s://%s: start it with --base-url %s and --trusted-proxies ADDRESS-OF-THE-PROXY, and let the proxy pass on the client's address", x.seen.Scheme, x.seen.Host, x.BaseURL),
		Change: change("proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
			"(Caddy does so by itself)", `ProxyPreserveHost On  and  RequestHeader set X-Forwarded-Proto "https"`, "(Traefik does so by itself)"),
	}
}

func (x *examination) clock(context.Context) Finding {
	off := x.Now().Sub(x.seen.Now).Round(time.Second)
	if off.Abs() > 2*time.Minute {
		return Finding{Check: "clock", Level: Warning, Says: fmt.Sprintf("the clocks of this computer and the server differ by %s: signed links and logins by time fail", off.Abs())}
	}
	return ok("clock", "the clocks agree")
}

// disk asks the server whether it has room: not how much, which is not everybody's to know.
func (x *examination) disk(ctx context.Context) Finding {
	a, err := x.ask(ctx, http.MethodGet, "disk", nil, nil)
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("%s answered %s", orUnknown(a.header.Get("Server")), a.status)
	}
	var says struct{ Disk string }
	if err == nil {
		err = json.Unmarshal(a.body, &says)
	}
	if err != nil {
		return failed("disk", err)
	}
	switch says.Disk {
	case "full":
		return Finding{Check: "disk", Level: Failure, Says: "the server's disk is full but for what --min-free keeps: uploads are refused. An administrator sees what takes the room: smartdrive admin status"}
	case "low":
		return Finding{Check: "disk", Level: Warning, Says: "the server's disk has less than ten times left of what --min-free keeps free: uploads are refused soon"}
	case "boundless":
		return ok("disk", "the contents lie in a store without an end")
	}
	return ok("disk", "the server has room")
}

// mail has the server ask its mail server whether it would take a mail. That is for administrators:
// the answer names the server, and each question is a login.
func (x *examination) mail(ctx context.Context) Finding {
	a, err := x.askAt(ctx, http.MethodGet, "admin/mail", nil, nil)
	switch {
	case err != nil:
	case a.code == http.StatusForbidden:
		return Finding{Check: "mail", Level: Unknown, Says: "only administrators are told how the mail server is doing"}
	case a.code != http.StatusOK:
		err = fmt.Errorf("%s answered %s", orUnknown(a.header.Get("Server")), a.status)
	}
	var report struct {
		State, Server, From, Says string
		Encrypted                 bool
	}
	if err == nil {
		err = json.Unmarshal(a.body, &report)
	}
	if err != nil {
		return failed("mail", err)
	}
	wrong := map[string]string{
		"reach":  "the mail server %[1]s does not answer (%[3]s): is --mail right, and may this machine connect to that port?",
		"secure": "the connection to the mail server %[1]s cannot be encrypted (%[3]s): smtps:// in --mail is TLS from the first byte, mostly port 465; smtp:// is STARTTLS, mostly port 587",
		"login":  "the mail server %[1]s does not accept the login of --mail (%[3]s)",
		"sender": "the mail server %[1]s takes no mail from %[2]s (%[3]s): change from= in --mail",
	}
	switch says, bad := wrong[report.State]; {
	case bad:
		return Finding{Check: "mail", Level: Failure, Says: fmt.Sprintf(says, report.Server, report.From, report.Says)}
	case report.State == "none":
		return ok("mail", "no mail is sent: the server was started without --mail")
	case report.State != "ok":
		return failed("mail", fmt.Errorf("the server says %q", report.State))
	case report.Encrypted:
		return ok("mail", "the mail server %s would take mail from %s, encrypted", report.Server, report.From)
	}
	return ok("mail", "the mail server %s, on the same machine, would take mail from %s", report.Server, report.From)
}

// change is the line to change, for each proxy that has one.
func change(nginx, caddy, apache, traefik string) map[string]string {
	all := map[string]string{}
	for name, line := range map[string]string{"nginx": nginx, "Caddy": caddy, "Apache": apache, "Traefik": traefik} {
		if line != "" {
			all[name] = line
		}
	}
	return all
}
