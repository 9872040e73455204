package proxy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// finding is the result of one check in doctor --json.
type finding struct {
	Check  string            `json:"check"`
	Level  string            `json:"level"`
	Says   string            `json:"says"`
	Change map[string]string `json:"change"`
}

// doctor runs smartdrive doctor through the proxy and returns the failed checks.
func (s *site) doctor(t *testing.T, wait string) map[string]finding {
	t.Helper()
	before := s.restarted.Load()
	out, code := s.cli(t, "doctor", "--base-url", s.url, "--wait", wait, "--json")
	if !before && s.restarted.Load() { // what it has found is of a proxy that was ending
		s.answers(t)
		out, code = s.cli(t, "doctor", "--base-url", s.url, "--wait", wait, "--json")
	}
	unwell := map[string]finding{}
	n := 0
	for line := range strings.Lines(out) {
		var f finding
		if json.Unmarshal([]byte(line), &f) != nil || f.Check == "" {
			continue
		}
		n++
		if f.Level == "warning" || f.Level == "failure" {
			unwell[f.Check] = f
		} else if f.Level == "unknown" && f.Check != "time-outs" {
			t.Errorf("%s: %s", f.Check, f.Says)
		}
	}
	if n < 12 || (code != 0) != (len(unwell) > 0) {
		t.Fatalf("exit code %d, %d checks:\n%s", code, n, out)
	}
	return unwell
}

// The examples of deploy/ are as the doctor wishes. Their certificates are good for a day here, and
// they leave HSTS to the operator.
func TestDoctorFindsTheExamplesWell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, site, file string
		run              func(t *testing.T, s *site)
	}{
		{"nginx", "drive.example.org", "nginx/smartdrive.conf", runNginx},
		{"nginx below a path", "example.org/drive", "nginx/smartdrive-subpath.conf", runNginx},
		{"caddy", "drive.example.org", "caddy/Caddyfile", runCaddy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.site)
			s.use(t, c.file)
			c.run(t, s)
			s.serve(t)
			for check, f := range s.doctor(t, "0s") {
				if check != "tls" && check != "hsts" && check != "disk" { // that is this machine's
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// What is wrong is found, and the line of that proxy named.
func TestDoctorFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file string
		run        func(t *testing.T, s *site)
		proxy      string
		replace    [][2]string
		want       []string // checks
		wait       string
	}{
		{"nginx: body size", "nginx/smartdrive.conf", runNginx, "nginx", [][2]string{{"client_max_body_size 0;", "client_max_body_size 4m;"}}, []string{"body size"}, "0s"},
		{"nginx: buffering", "nginx/smartdrive.conf", runNginx, "nginx", [][2]string{{"proxy_request_buffering off;", ""}, {"proxy_buffering off;", ""}}, []string{"request buffering", "response buffering"}, "0s"},
		{"nginx: time-outs", "nginx/smartdrive.conf", runNginx, "nginx", [][2]string{{"proxy_read_timeout 300s;", "proxy_read_timeout 1s;"}}, []string{"time-outs"}, "3s"},
		{"nginx: methods", "nginx/smartdrive.conf", runNginx, "nginx", [][2]string{{"location / {", "location / {\n limit_except GET POST PUT DELETE PATCH { deny all; }"}}, []string{"methods", "webdav"}, "0s"},
		{"nginx: headers", "nginx/smartdrive.conf", runNginx, "nginx", [][2]string{{"proxy_http_version 1.1;", "proxy_http_version 1.1; proxy_set_header Destination \"\"; proxy_set_header If \"\";"}}, []string{"headers"}, "0s"},
		{"nginx: paths", "nginx/smartdrive.conf", runNginx, "nginx", [][2]string{{"proxy_pass http://smartdrive;", "proxy_pass http://smartdrive/;"}}, []string{"paths"}, "0s"},
		{"nginx: address", "nginx/smartdrive.conf", runNginx, "nginx", [][2]string{{"proxy_set_header X-Forwarded-Proto $scheme;", ""}}, []string{"address"}, "0s"},
		{"caddy: body size", "caddy/Caddyfile", runCaddy, "Caddy", [][2]string{{"\treverse_proxy", "\trequest_body {\n\t\tmax_size 4MB\n\t}\n\treverse_proxy"}}, []string{"body size"}, "0s"},
		{"caddy: headers", "caddy/Caddyfile", runCaddy, "Caddy", [][2]string{{"flush_interval -1", "flush_interval -1\n\t\theader_up -Destination"}}, []string{"headers"}, "0s"},
		{"caddy: time-outs", "caddy/Caddyfile", runCaddy, "Caddy", [][2]string{{"response_header_timeout 300s", "response_header_timeout 1s"}}, []string{"time-outs"}, "3s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "drive.example.org")
			s.use(t, c.file)
			for _, r := range c.replace {
				s.replace(t, r[0], r[1])
			}
			c.run(t, s)
			s.serve(t)
			found := s.doctor(t, c.wait)
			delete(found, "tls")
			delete(found, "hsts")
			delete(found, "disk") // this machine's
			got := map[string]bool{}
			for check, f := range found {
				got[check] = true
				if check != "webdav" && f.Change[c.proxy] == "" {
					t.Errorf("%s: no line of %s: %+v", check, c.proxy, f)
				}
			}
			want := map[string]bool{}
			for _, check := range c.want {
				want[check] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s\n%+v", diff, found)
			}
		})
	}
}
