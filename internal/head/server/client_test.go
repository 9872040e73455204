package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}

func TestReadForwarded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, forwardedFor, proto, host string
		client, scheme, outHost         string
	}{
		{"one proxy", "203.0.113.9", "https", "drive.example", "203.0.113.9", "https", "drive.example"},
		{"a client that lies", "1.1.1.1, 203.0.113.9", "ftp", "a/b", "203.0.113.9", "", ""},
		{"a lie and two proxies", "1.1.1.1, 203.0.113.9, 10.1.2.3", "", "", "203.0.113.9", "", ""},
		{"a lie about the scheme, appended", "1.1.1.1, 203.0.113.9", "https, http", "", "203.0.113.9", "http", ""},
		{"the inner proxy speaks http", "203.0.113.9, 10.1.2.3", "https, http", "x.example, inner", "203.0.113.9", "https", "x.example"},
		{"more schemes than hops", "203.0.113.9", "https, http", "", "203.0.113.9", "http", ""},
		{"only proxies", "10.0.0.1, 10.0.0.2", "", "", "10.0.0.1", "", ""},
		{"junk stops it", "203.0.113.9, unknown, 10.0.0.2", "", "", "10.0.0.2", "", ""},
		{"ports and brackets", "[2001:db8::1]:4711", "HTTPS", "drive.example:8443", "2001:db8::1", "https", "drive.example:8443"},
		{"mapped", "::ffff:203.0.113.9", "", "", "203.0.113.9", "", ""},
		{"nothing", "", "", "", "invalid IP", "", ""},
	}
	for _, tt := range tests {
		h := http.Header{}
		for name, v := range map[string]string{"X-Forwarded-For": tt.forwardedFor, "X-Forwarded-Proto": tt.proto, "X-Forwarded-Host": tt.host} {
			if v != "" {
				h.Set(name, v)
			}
		}
		f := readForwarded(h, proxies)
		if f.client.String() != tt.client || f.scheme != tt.scheme || f.host != tt.outHost {
			t.Errorf("%s: got %v %q %q, want %s %q %q", tt.name, f.client, f.scheme, f.host, tt.client, tt.scheme, tt.outHost)
		}
	}
}

func whoAmI(mux *http.ServeMux) {
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, addrOf(r.RemoteAddr), " ", r.URL.Scheme, " ", r.Host)
	})
}

func TestOnlyTrustedPeersSetClientAddress(t *testing.T) {
	t.Parallel()
	const raw = "GET /me HTTP/1.1\r\nHost: own\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n" +
		"X-Forwarded-Host: drive.example\r\nX-Request-Id: proxy-7\r\n\r\n"
	for _, tt := range []struct {
		trusted  []netip.Prefix
		want     string
		takesOut bool
	}{
		{nil, "127.0.0.1 http own", false},
		{proxies, "203.0.113.9 https drive.example", true},
	} {
		resp := exchange(t, running(t, Options{TrustedProxies: tt.trusted}, whoAmI), raw)
		if body := readString(t, resp); body != tt.want {
			t.Errorf("trusted %v: %q, want %q", tt.trusted, body, tt.want)
		}
		if id := resp.Header.Get("X-Request-Id"); (id == "proxy-7") != tt.takesOut || id == "" {
			t.Errorf("trusted %v: request id %q", tt.trusted, id)
		}
	}
}

func FuzzReadForwarded(f *testing.F) {
	f.Add("1.1.1.1, 10.0.0.1", "https", "a.example")
	f.Add("[::1]:80,,", "http,https", "a b")
	f.Fuzz(func(t *testing.T, forwardedFor, proto, host string) {
		h := http.Header{"X-Forwarded-For": {"6.6.6.6", forwardedFor, "203.0.113.9, 10.0.0.1"}, "X-Forwarded-Proto": {proto}, "X-Forwarded-Host": {host}}
		got := readForwarded(h, proxies)
		if got.client != netip.MustParseAddr("203.0.113.9") {
			t.Errorf("what the client sent made it %v", got.client)
		}
		if got.scheme != "" && got.scheme != "http" && got.scheme != "https" {
			t.Errorf("scheme %q", got.scheme)
		}
		if strings.ContainsAny(got.host, " /\\@?#,\r\n\"<>") {
			t.Errorf("host %q", got.host)
		}
	})
}

func FuzzCheckSegments(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "/a//b", "/..", "/%2e%2E/a", "/a%2fb", "/%", "/%00", "/a/", "a", "/\xff"} {
		f.Add(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{path...}", func(http.ResponseWriter, *http.Request) {})
	f.Fuzz(func(t *testing.T, path string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+path, nil)
		if err != nil || checkSegments(r.URL.EscapedPath()) != nil {
			return
		}
		// What passes is not redirected by the mux, and has no segment that means another place.
		if _, pattern := mux.Handler(r); pattern != "GET /{path...}" {
			t.Errorf("%q went to %q", path, pattern)
		}
		if p := r.URL.Path; p != "/" && (strings.Contains(p+"/", "//") || strings.Contains(p+"/", "/../") || strings.Contains(p+"/", "/./")) {
			t.Errorf("%q passed as %q", path, p)
		}
	})
}
