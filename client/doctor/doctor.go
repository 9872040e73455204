// Package doctor checks a SmartDrive server from the client's side, through all proxies in front of
// it. It reports what is wrong and which line of the proxy's configuration to change.
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

// Options configure Run. BaseURL and Token are required.
type Options struct {
	BaseURL string // such as https://drive.example.org or https://example.org/drive
	Token   string // access token of any user; the mail check needs an administrator's
	// SlowReply is how long the server delays one reply, to test the timeouts of proxies: at most
	// 90 s. Zero: no such test.
	SlowReply time.Duration
	// HTTP sends the requests. Default: an HTTP/1.1 client.
	HTTP *http.Client
	Now  func() time.Time // default time.Now
}

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // affects some clients or some files
	Failure Level = "failure"
	Unknown Level = "unknown" // the check could not be made
)

// Finding is the result of one check.
type Finding struct {
	Check       string            `json:"check"`
	Level       Level             `json:"level"`
	Message     string            `json:"says"`
	ConfigLines map[string]string `json:"change,omitempty"` // proxy name -> configuration line to change
}

// Run makes all checks and returns a finding for each. The checks run one after the other, except
// the slow reply. If the server cannot be reached, Run returns only that finding.
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
	x := &doctor{Options: o}
	reached := x.reach(ctx)
	if reached.Level == Failure {
		return []Finding{reached}
	}
	late := make(chan Finding, 1)
	go func() { late <- x.slowReply(ctx) }()
	all := []Finding{reached}
	for _, check := range []func(context.Context) Finding{
		x.tls, x.hsts, x.address, x.clock, x.disk, x.mail, x.bodySize, x.requestBuffering, x.chunked, x.responseBuffering, x.methods, x.headers, x.ranges, x.paths, x.login,
	} {
		all = append(all, check(ctx))
	}
	return append(all, <-late)
}

// doctor is the state of one Run.
type doctor struct {
	Options

	firstHeader http.Header // header of the first reply
	tlsState    *tls.ConnectionState
	firstEcho   echoReply // the server's view of the first request
}

// echoReply is the server's description of a request that it received.
type echoReply struct {
	Method  string    `json:"method"`
	Headers []string  `json:"headers"`
	Host    string    `json:"host"`
	Scheme  string    `json:"scheme"`
	Client  string    `json:"client"`
	Bytes   int64     `json:"bytes"`
	Chunked bool      `json:"chunked"`
	SpanMS  int64     `json:"span_ms"`
	Now     time.Time `json:"now"`

	reply reply
}

// ok returns a finding of level OK with a formatted message.
func ok(check, says string, args ...any) Finding {
	return Finding{Check: check, Level: OK, Message: fmt.Sprintf(says, args...)}
}

// unknown returns a finding of level Unknown for a check that failed with err.
func unknown(check string, err error) Finding {
	return Finding{Check: check, Level: Unknown, Message: "could not be looked at: " + err.Error()}
}

// reply is the HTTP reply to a probe.
type reply struct {
	code   int
	status string
	header http.Header
	state  *tls.ConnectionState
	body   []byte
}

// probe sends a request to one of the server's probe endpoints, below /api/v1/probe/.
func (d *doctor) probe(ctx context.Context, method, path string, body io.Reader, header map[string]string) (reply, error) {
	return d.requestAPI(ctx, method, "probe/"+path, body, header)
}

// requestAPI sends a request to a path below /api/v1/. It reads at most 1 MiB of the reply.
func (d *doctor) requestAPI(ctx context.Context, method, path string, body io.Reader, header map[string]string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.BaseURL+"/api/v1/"+path, body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+d.Token)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := d.HTTP.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	const most = 1 << 20 // bytes: far more than any probe replies
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return reply{resp.StatusCode, resp.Status, resp.Header, resp.TLS, raw}, err
}

// echo sends a request to the echo probe, which replies with what the server received. A status
// other than 200 is an error.
func (d *doctor) echo(ctx context.Context, method string, body io.Reader, header map[string]string) (s echoReply, err error) {
	a, err := d.probe(ctx, method, "echo", body, header)
	if err != nil {
		return s, err
	}
	s.reply = a
	if a.code != http.StatusOK {
		return s, fmt.Errorf("%s answered %s", orUnknown(a.header.Get("Server")), a.status)
	}
	return s, json.Unmarshal(a.body, &s)
}

// orUnknown returns the name of a server for a message; "something" if the name is empty.
func orUnknown(server string) string {
	if server == "" {
		return "something"
	}
	return server
}

// reach checks that the server answers and accepts the token. On success it stores the first echo,
// header and TLS state for later checks; on failure the others are pointless.
func (d *doctor) reach(ctx context.Context) Finding {
	s, err := d.echo(ctx, http.MethodGet, nil, nil)
	switch {
	case s.reply.code == http.StatusUnauthorized:
		return Finding{
			Check: "reach", Level: Failure,
			Message:     "the server does not take the token: log in, or give another --token. If the token is right, a proxy drops the header Authorization",
			ConfigLines: configLines("", "", "CGIPassAuth On  # and no AuthType of Apache's own before the drive", ""),
		}
	case s.reply.code != 0 && err != nil:
		return Finding{Check: "reach", Level: Failure, Message: err.Error() + ": is the address right, does the proxy point to SmartDrive, and is SmartDrive of this version?"}
	case err != nil:
		return Finding{Check: "reach", Level: Failure, Message: err.Error()}
	}
	d.firstEcho, d.firstHeader, d.tlsState = s, s.reply.header, s.reply.state
	via := ""
	if server := s.reply.header.Get("Server"); server != "" {
		via = " through " + server
	}
	return ok("reach", "the server answers at %s%s", d.BaseURL, via)
}

// tls checks the TLS version and the certificate's expiry.
func (d *doctor) tls(context.Context) Finding {
	if d.tlsState == nil {
		return Finding{Check: "tls", Level: Warning, Message: "the address is not encrypted (http): passwords and files can be read on the way, and some clients refuse it"}
	}
	left := d.tlsState.PeerCertificates[0].NotAfter.Sub(d.Now())
	switch {
	case d.tlsState.Version < tls.VersionTLS12:
		return Finding{
			Check: "tls", Level: Warning, Message: "the connection uses " + tls.VersionName(d.tlsState.Version),
			ConfigLines: configLines("ssl_protocols TLSv1.2 TLSv1.3;", "", "SSLProtocol -all +TLSv1.2 +TLSv1.3", "minVersion: VersionTLS12"),
		}
	case left < 14*24*time.Hour:
		return Finding{Check: "tls", Level: Warning, Message: fmt.Sprintf("the certificate ends in %d days", int(left.Hours()/24))}
	}
	return ok("tls", "%s, the certificate is good for %d days", tls.VersionName(d.tlsState.Version), int(left.Hours()/24))
}

// hsts checks that an encrypted server sends Strict-Transport-Security. It uses the reply of reach,
// which must have run.
func (d *doctor) hsts(context.Context) Finding {
	if d.tlsState != nil && d.firstHeader.Get("Strict-Transport-Security") == "" {
		return Finding{
			Check: "hsts", Level: Warning, Message: "Strict-Transport-Security is not sent: a browser may be led to http",
			ConfigLines: configLines(`add_header Strict-Transport-Security "max-age=31536000" always;`, `header Strict-Transport-Security "max-age=31536000"`,
				`Header always set Strict-Transport-Security "max-age=31536000"`, "headers.stsSeconds: 31536000"),
		}
	}
	return ok("hsts", "as it should be")
}

// address checks that the server sees the scheme and host that its users use.
func (d *doctor) address(context.Context) Finding {
	u, err := url.Parse(d.BaseURL)
	if err != nil {
		return unknown("address", err)
	}
	if d.firstEcho.Scheme == u.Scheme && strings.EqualFold(d.firstEcho.Host, u.Host) {
		return ok("address", "the server knows its address as %s://%s, and the client's as %s", d.firstEcho.Scheme, d.firstEcho.Host, d.firstEcho.Client)
	}
	return Finding{
		Check: "address", Level: Warning,
		Message: fmt.Sprintf("the server thinks that its address is %s://%s: start it with --base-url %s and --trusted-proxies ADDRESS-OF-THE-PROXY, and let the proxy pass on the client's address", d.firstEcho.Scheme, d.firstEcho.Host, d.BaseURL),
		ConfigLines: configLines("proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
			"(Caddy does so by itself)", `ProxyPreserveHost On  and  RequestHeader set X-Forwarded-Proto "https"`, "(Traefik does so by itself)"),
	}
}

// clock checks that the clocks of this computer and the server differ by at most 2 minutes.
func (d *doctor) clock(context.Context) Finding {
	off := d.Now().Sub(d.firstEcho.Now).Round(time.Second)
	if off.Abs() > 2*time.Minute {
		return Finding{Check: "clock", Level: Warning, Message: fmt.Sprintf("the clocks of this computer and the server differ by %s: signed links and logins by time fail", off.Abs())}
	}
	return ok("clock", "the clocks agree")
}

// disk checks that the server has disk space. The probe does not reveal how much.
func (d *doctor) disk(ctx context.Context) Finding {
	a, err := d.probe(ctx, http.MethodGet, "disk", nil, nil)
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("%s answered %s", orUnknown(a.header.Get("Server")), a.status)
	}
	var says struct{ Disk string }
	if err == nil {
		err = json.Unmarshal(a.body, &says)
	}
	if err != nil {
		return unknown("disk", err)
	}
	switch says.Disk {
	case "full":
		return Finding{Check: "disk", Level: Failure, Message: "the server's disk is full but for what --min-free keeps: uploads are refused. An administrator sees what takes the room: smartdrive admin status"}
	case "low":
		return Finding{Check: "disk", Level: Warning, Message: "the server's disk has less than ten times left of what --min-free keeps free: uploads are refused soon"}
	case "boundless":
		return ok("disk", "the contents lie in a store without an end")
	}
	return ok("disk", "the server has room")
}

// mail makes the server check, without sending, that its mail server accepts mail. It requires an
// administrator, because the reply names the mail server and each check is a login there.
func (d *doctor) mail(ctx context.Context) Finding {
	a, err := d.requestAPI(ctx, http.MethodGet, "admin/mail", nil, nil)
	switch {
	case err != nil:
	case a.code == http.StatusForbidden:
		return Finding{Check: "mail", Level: Unknown, Message: "only administrators are told how the mail server is doing"}
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
		return unknown("mail", err)
	}
	wrong := map[string]string{
		"reach":  "the mail server %[1]s does not answer (%[3]s): is --mail right, and may this machine connect to that port?",
		"secure": "the connection to the mail server %[1]s cannot be encrypted (%[3]s): smtps:// in --mail is TLS from the first byte, mostly port 465; smtp:// is STARTTLS, mostly port 587",
		"login":  "the mail server %[1]s does not accept the login of --mail (%[3]s)",
		"sender": "the mail server %[1]s takes no mail from %[2]s (%[3]s): change from= in --mail",
	}
	switch says, bad := wrong[report.State]; {
	case bad:
		return Finding{Check: "mail", Level: Failure, Message: fmt.Sprintf(says, report.Server, report.From, report.Says)}
	case report.State == "none":
		return ok("mail", "no mail is sent: the server was started without --mail")
	case report.State != "ok":
		return unknown("mail", fmt.Errorf("the server says %q", report.State))
	case report.Encrypted:
		return ok("mail", "the mail server %s would take mail from %s, encrypted", report.Server, report.From)
	}
	return ok("mail", "the mail server %s, on the same machine, would take mail from %s", report.Server, report.From)
}

// configLines returns the configuration line to change for each proxy; "" means none for that
// proxy.
func configLines(nginx, caddy, apache, traefik string) map[string]string {
	all := map[string]string{}
	for name, line := range map[string]string{"nginx": nginx, "Caddy": caddy, "Apache": apache, "Traefik": traefik} {
		if line != "" {
			all[name] = line
		}
	}
	return all
}
