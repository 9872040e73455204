package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

func host(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// read fetches a whole document.
func read(t *testing.T, f *Fetcher, at string) (string, error) {
	t.Helper()
	doc, err := f.Get(t.Context(), at, Any)
	if err != nil {
		return "", err
	}
	defer doc.Close() //nolint:errcheck // it was only read
	raw, err := io.ReadAll(doc)
	return string(raw), err
}

// wants checks the class and reason of an error.
func wants(t *testing.T, what string, err error, class Class, reason string) {
	t.Helper()
	why, ok := errors.AsType[*Error](err)
	if !ok || why.Class != class || why.Reason != reason {
		t.Errorf("%s: %v, want %s of class %d", what, err, reason, class)
	}
}

func hosts(all ...string) func() []string { return func() []string { return all } }

func TestMisbehavingServers(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	mux := http.NewServeMux()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	t.Cleanup(elsewhere.Close)
	mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "good") })
	mux.HandleFunc("/hop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	mux.HandleFunc("/out", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) { <-stop })
	mux.HandleFunc("/stalls", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-stop
	})
	mux.HandleFunc("/drips", func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/declares", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "100000") })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		}
	})
	mux.HandleFunc("/encoded", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") })
	for _, status := range []int{204, 206, 401, 403, 404, 410, 429, 500, 503} {
		mux.HandleFunc(fmt.Sprintf("/status/%d", status), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(stop) }) // before the server waits for its handlers
	opt := Options{Hosts: hosts(host(s)), Private: true, MaxSize: 10 * drive.KiB}
	f := New(opt) // waits long enough for the server's last step
	opt.Stall = 200 * time.Millisecond
	stalls := New(opt)
	opt.Stall, opt.Time = 0, time.Second
	slow := New(opt)
	opt.Time, opt.RatePeriod = 0, 200*time.Millisecond
	paced := New(opt)
	for _, at := range []string{"/good", "/hop"} {
		if text, err := read(t, f, s.URL+at); text != "good" || err != nil {
			t.Errorf("%s: %q, %v", at, text, err)
		}
	}
	for at, want := range map[string]struct {
		by     *Fetcher
		class  Class
		reason string
	}{
		"/out": {f, Final, Redirected}, "/file": {f, Final, Redirected}, "/loop": {f, Final, Redirected},
		"/silent": {stalls, RetryHere, TimedOut}, "/stalls": {stalls, RetryHere, TimedOut}, "/drips": {slow, RetryHere, TimedOut},
		"/short": {f, RetryHere, BrokenOff}, "/declares": {f, Final, TooLarge}, "/endless": {f, Final, TooLarge}, "/encoded": {f, Final, Encoded},
		"/status/204": {f, Final, UnexpectedStatus}, "/status/206": {f, Final, UnexpectedStatus}, "/status/401": {f, Final, Refused}, "/status/403": {f, Final, Refused},
		"/status/404": {f, Final, Missing}, "/status/410": {f, Final, Missing}, "/status/429": {f, RetryHere, Busy}, "/status/500": {f, RetryHere, Busy},
		"/status/503": {f, RetryHere, Busy},
	} {
		t.Run(strings.ReplaceAll(at, "/", " "), func(t *testing.T) {
			t.Parallel()
			_, err := read(t, want.by, s.URL+at)
			wants(t, at, err, want.class, want.reason)
		})
	}
	t.Run("short, where a PDF is wanted", func(t *testing.T) {
		t.Parallel()
		doc, err := f.Get(t.Context(), s.URL+"/short", PDF)
		if err == nil {
			err = doc.Close()
		}
		wants(t, "/short", err, RetryHere, BrokenOff) // retried: incomplete, not a wrong type
	})
	t.Run("drips, within a long time", func(t *testing.T) {
		t.Parallel()
		_, err := read(t, paced, s.URL+"/drips")
		wants(t, "/drips", err, RetryHere, TimedOut)
	})
	_, err := read(t, f, elsewhere.URL)
	wants(t, "a host that is not on the list", err, Final, NotAllowed)
	const nobody = "127.0.0.1:1" // a port that is never assigned
	_, err = read(t, New(Options{Hosts: hosts(nobody), Private: true}), "http://"+nobody+"/")
	wants(t, "a port that nobody listens at", err, RetryElsewhere, Unreachable)
}

// A listed name that resolves into this network is refused at the connection, whatever it resolved
// to before.
func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	t.Cleanup(s.Close)
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	f := New(Options{Hosts: hosts("127.0.0.1"+port, "localhost"+port, "[::ffff:127.0.0.1]"+port)})
	for _, at := range []string{"http://127.0.0.1", "http://localhost", "http://[::ffff:127.0.0.1]"} {
		_, err := read(t, f, at+port+"/")
		wants(t, at, err, Final, Private)
	}
}

func TestOnlyListedHostsAreContacted(t *testing.T) {
	t.Parallel()
	dialled := ""
	f := New(Options{
		Hosts: hosts("docs.example", "*.wild.example", "port.example:8443", "[2606:4700::1111]:80"),
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = address
			return nil, errors.New("no network here")
		},
	})
	for at, allowed := range map[string]bool{
		"http://docs.example/x": true, "https://DOCS.example./x": true, "http://a.wild.example/": true, "https://port.example:8443/": true,
		"http://[2606:4700::1111]/": true, "https://a.b.wild.example/": true,
		"http://wild.example/": false, "http://evilwild.example/": false, "http://docs.example.evil/": false, "http://docs.example:81/": false,
		"https://port.example/": false, "ftp://docs.example/": false, "http://user@docs.example/": false, "http://docs.example@evil.example/": false,
		"//docs.example/": false, "docs.example": false, "file:///etc/passwd": false, "http:///x": false, "http://evil.example\\@docs.example/": false,
		"gopher://docs.example": false, "http://other.example/?docs.example": false,
	} {
		if err := f.Check(at); (err == nil) != allowed {
			t.Errorf("%s: %v", at, err)
		}
		dialled = ""
		_, _ = f.Get(t.Context(), at, Any) // there is no network
		if (dialled != "") != allowed {
			t.Errorf("%s: dialled %q", at, dialled)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"http://docs.example/x", "http://a@docs.example", "http://docs.example\\evil", "http://[::1]:80", "HTTP://docs.example:80"} {
		f.Add(s)
	}
	fetcher := New(Options{Hosts: hosts("docs.example")})
	f.Fuzz(func(t *testing.T, address string) {
		if fetcher.Check(address) != nil {
			return
		}
		req, err := http.NewRequest(http.MethodGet, address, nil) //nolint:noctx // it is not sent
		if err != nil {
			return
		}
		if name := strings.ToLower(strings.TrimSuffix(req.URL.Hostname(), ".")); name != "docs.example" {
			t.Errorf("%q is allowed and leads to %q", address, name)
		}
	})
}
