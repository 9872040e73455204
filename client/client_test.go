package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/client/clienttest"
)

func TestNewRefusesAddresses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "drive.example.org", "ftp://x", "http://", "http://u:p@x", "http://x/?q=1", "http://[::1"} {
		if _, err := New(Options{BaseURL: bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	c, err := New(Options{BaseURL: "https://x/drive/"})
	if err != nil || c.BaseURL() != "https://x/drive" {
		t.Errorf("%q, %v", c.BaseURL(), err)
	}
}

// answering is a server that replies to every request in the same way.
func answering(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := New(Options{BaseURL: s.URL, RetryFor: 5 * time.Second, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestProblem(t *testing.T) {
	t.Parallel()
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusInsufficientStorage)
		_, _ = w.Write([]byte(`{"type":"/problems/quota","title":"No room","status":507,"detail":"2 MiB more are needed.",
			"code":"quota","request_id":"r1","needed":2097152,"available":5}`))
	})
	_, err := c.Me(t.Context())
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatalf("got %v", err)
	}
	var needed int64
	if !p.Arg("needed", &needed) || needed != 2097152 || p.Arg("nothing", &needed) || p.Arg("code", &needed) {
		t.Errorf("args %v", p.Args)
	}
	if p.Status != 507 || p.Code != CodeQuota || p.RequestID != "r1" || p.RetryAfter != 7*time.Second {
		t.Errorf("%+v", p)
	}
	if got := err.Error(); got != "2 MiB more are needed (quota)" {
		t.Errorf("%q", got)
	}
}

// Replies of proxies are explained, whatever their status.
func TestProxyErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		header string // name: value
		body   string
		want   string
	}{
		{413, "Server: nginx", "<html>", "client_max_body_size"},
		{404, "", "404 page not found", "is the server address right? It said: 404 page not found"},
		{200, "Content-Type: text/html", "<html>welcome to the hotel", "is the server address right?"},
		{301, "Location: https://drive.example.org/", "", "use the one that https://drive.example.org/ points to"},
		{403, "Content-Type: application/problem+json", "{not json", "answered 403"},
	} {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			if name, value, ok := strings.Cut(test.header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		})
		_, err := c.Me(t.Context())
		var p *ProxyError
		if !errors.As(err, &p) || p.Status != test.status || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d: %v, want %q", test.status, err, test.want)
		}
	}
}

// Every attempt of a creating request carries the same idempotency key.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	var (
		mu   sync.Mutex
		keys []string
	)
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) < 3 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"n1","type":"folder"}`))
	})
	n, err := c.CreateFolder(t.Context(), NewFolder{Path: "/a"})
	mu.Lock()
	defer mu.Unlock()
	if err != nil || n.ID != "n1" || len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("%v, %v, keys %q", n.ID, err, keys)
	}
}

func TestCreateTokenIsNotRetried(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	c := answering(t, func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		panic(http.ErrAbortHandler)
	})
	if _, err := c.CreateToken(t.Context(), NewToken{Name: "ci"}); err == nil || requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

// The reply does not contain the request's fields; CreateToken adds them.
func TestCreateTokenReturnsScopes(t *testing.T) {
	t.Parallel()
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"t1","token":"sd_x","expires_at":null}`)
	})
	made, err := c.CreateToken(t.Context(), NewToken{Name: "ci", Scopes: []string{"read"}})
	want := AccessToken{ID: "t1", Token: "sd_x", Name: "ci", Scopes: []string{"read"}, Heads: []string{"native"}}
	if diff := cmp.Diff(want, made); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

// A delete whose reply was lost gets not-found at the retry, which is success.
func TestDeleteLostReply(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.Store("/f", nil, mtime)
	c := newClient(t, s)
	n, err := c.NodeAt(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(once(1, clienttest.LoseReply, func(method, _ string) bool { return method == http.MethodDelete }))
	if err := c.DeleteNode(t.Context(), n.ID, true); err != nil {
		t.Error(err)
	}
	if err := c.DeleteNode(t.Context(), n.ID, true); !IsCode(err, CodeNotFound) {
		t.Errorf("a plain second delete: %v", err)
	}
}

func TestCancelEndsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Me(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestStalledBodyIsAborted(t *testing.T) {
	t.Parallel()
	stalled := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(stalled)
	}))
	t.Cleanup(s.Close)
	c, err := New(Options{BaseURL: s.URL, StallTimeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.Open(t.Context(), "x", Range{})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := body.Read(make([]byte, 10)); err == nil {
		t.Error("read something")
	}
	<-stalled
}

func TestFetchAndWaitFollowsOperation(t *testing.T) {
	t.Parallel()
	var polls atomic.Int64
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"id":"op1","state":"running"}`))
			return
		}
		state := "running"
		if polls.Add(1) == 3 {
			state = "done"
		}
		_, _ = w.Write([]byte(`{"id":"op1","state":"` + state + `"}`))
	})
	if err := c.DeleteNode(t.Context(), "n", false); err != nil || polls.Load() != 3 {
		t.Errorf("%v after %d polls", err, polls.Load())
	}
}

func TestOperationFailuresAreListed(t *testing.T) {
	t.Parallel()
	var polls atomic.Int64
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/failures"):
			next := `"1.0"`
			if r.URL.Query().Get("cursor") != "" {
				next = "null"
			}
			_, _ = w.Write([]byte(`{"items":[{"id":"n","path":"/n","code":"name-taken","title":"taken"}],"next_cursor":` + next + `}`))
			return
		case r.Method == http.MethodPost && r.Header.Get("Idempotency-Key") == "":
			t.Errorf("%s has no key", r.URL.Path)
		}
		state := "running"
		if r.Method == http.MethodGet && polls.Add(1) == 2 {
			state = "cancelled"
		}
		_, _ = w.Write([]byte(`{"id":"op1","state":"` + state + `","done":` + strconv.Itoa(int(polls.Load())) + `,"failed":1,"total":3}`))
	})
	op, err := c.StartOperation(t.Context(), NewOperation{Kind: OperationTrash, All: &AllItems{Folder: Root}})
	if err != nil {
		t.Fatal(err)
	}
	var told []int64
	op, err = c.WaitOperation(t.Context(), op, func(o Operation) { told = append(told, o.Done) })
	if err != nil || op.State != "cancelled" || !slices.Equal(told, []int64{0, 1, 2}) {
		t.Errorf("ended as %+v, %v; told %v", op, err, told)
	}
	n := 0
	for f, err := range c.OperationFailures(t.Context(), op.ID) {
		if n++; err != nil || f.Code != CodeNameTaken {
			t.Errorf("a failure is %+v, %v", f, err)
		}
	}
	if n != 2 {
		t.Errorf("%d failures", n)
	}
	for what, do := range map[string]func(context.Context, string) (Operation, error){"cancel": c.CancelOperation, "retry": c.RetryOperation, "undo": c.UndoOperation} {
		if op, err := do(t.Context(), "op1"); err != nil || op.ID != "op1" {
			t.Errorf("%s: %+v, %v", what, op, err)
		}
	}
}

func TestLocalName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"plain.txt": "plain.txt", "a:b?.txt": "a%3Ab%3F.txt", `x\y`: "x%5Cy", "CON": "%43ON", "nul.tar.gz": "%6Eul.tar.gz",
		"com1 .x": "%63om1 .x", "COM¹": "%43OM¹", "company": "company", "dot.": "dot%2E", "space ": "space%20", "100%": "100%",
		"%3A": "%253A", "tab\t": "tab%09", "ä": "ä",
	} {
		if got, err := localName(name, true); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
		if got, err := localName(name, false); got != name || err != nil {
			t.Errorf("%q elsewhere: %q, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/b", "../x", "a\x00"} {
		if got, err := localName(bad, false); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

// FuzzLocalName looks for two names that become one file.
func FuzzLocalName(f *testing.F) {
	f.Add("a:b", "a%3Ab")
	f.Add("CON", "%43ON")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := localName(a, true)
		y, errY := localName(b, true)
		if errX == nil && errY == nil && x == y && a != b {
			t.Errorf("%q and %q both become %q", a, b, x)
		}
		if errX == nil && (strings.ContainsAny(x, `<>:"/\|?*`+"\x00") || strings.HasSuffix(x, ".") || strings.HasSuffix(x, " ")) {
			t.Errorf("%q became %q", a, x)
		}
	})
}
