package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/test/process"
)

// node is an instance that runs.
type node struct {
	*App
	url  string
	stop func()
}

// shownOnFailure is a log that is shown when the test has failed.
func shownOnFailure(t *testing.T) *slog.Logger {
	t.Helper()
	text := new(lockedBuffer)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of an instance:\n%s", text.String())
		}
	})
	return slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func start1(t *testing.T, cfg config.Config) *node {
	t.Helper()
	a, err := Open(t.Context(), cfg, shownOnFailure(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- a.Run(ctx, "test", nil, func(url string) { ready <- url }) }()
	n := &node{App: a, stop: sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})}
	t.Cleanup(n.stop)
	select {
	case n.url = <-ready:
	case err := <-done:
		done <- nil
		t.Fatalf("it does not run: %v", err)
	}
	return n
}

// send speaks with a node as an administrator.
func (n *node) send(t *testing.T, token, method, path string, body []byte) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, n.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if bytes.HasPrefix(body, []byte("{")) {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err = io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

func (n *node) login(t *testing.T) (token string) {
	t.Helper()
	status, body := n.send(t, "", "POST", "/api/v1/sessions", fmt.Appendf(nil, `{"name":"admin","password":%q}`, clusterPassword))
	var login struct{ Token string }
	if err := json.Unmarshal(body, &login); err != nil || login.Token == "" {
		t.Fatalf("log in: %d %s", status, body)
	}
	return login.Token
}

const clusterPassword = "correct horse battery"

// patience is how long a test waits for what takes a moment; the machine may be busy.
const patience = 2 * time.Minute

// upload2 brings a file part by part, each part to another node, and completes it at the last one.
func upload2(t *testing.T, nodes []*node, token, path string, content []byte) {
	t.Helper()
	id, size := begin(t, nodes[0], token, path, len(content))
	for n := 0; n*size < len(content); n++ {
		sendPart(t, nodes[n%len(nodes)], token, id, n, content[n*size:min((n+1)*size, len(content))])
	}
	nodes[len(nodes)-1].complete(t, token, id)
}

// complete requests the completion until the upload is done. The server replies 202 if sealing
// takes longer than a request waits.
func (n *node) complete(t *testing.T, token, id string) {
	t.Helper()
	process.Eventually(t, patience, "complete", func() error {
		status, body := n.send(t, token, "POST", "/api/v1/uploads/"+id+"/complete", []byte("{}"))
		if status/100 != 2 {
			t.Fatalf("complete: %d %s", status, body)
		}
		if status == http.StatusAccepted {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
}

func begin(t *testing.T, n *node, token, path string, size int) (id string, partSize int) {
	t.Helper()
	status, body := n.send(t, token, "POST", "/api/v1/uploads", fmt.Appendf(nil, `{"path":%q,"size":%d}`, path, size))
	var up struct {
		ID       string
		PartSize int `json:"part_size"`
	}
	if err := json.Unmarshal(body, &up); err != nil || status != http.StatusCreated {
		t.Fatalf("begin: %d %s", status, body)
	}
	return up.ID, up.PartSize
}

func sendPart(t *testing.T, at *node, token, id string, n int, part []byte) {
	t.Helper()
	if status, body := at.send(t, token, "PUT", fmt.Sprintf("/api/v1/uploads/%s/parts/%d", id, n), part); status != http.StatusNoContent {
		t.Fatalf("part %d: %d %s", n, status, body)
	}
}

func (n *node) holds(t *testing.T, token, path string, content []byte) {
	t.Helper()
	_, found := n.send(t, token, "GET", "/api/v1/nodes?path="+path, nil)
	var file struct{ ID string }
	if err := json.Unmarshal(found, &file); err != nil || file.ID == "" {
		t.Fatalf("%s: %s", path, found)
	}
	if status, body := n.send(t, token, "GET", "/api/v1/nodes/"+file.ID+"/content", nil); status != http.StatusOK || !bytes.Equal(body, content) {
		t.Errorf("%s: %d and %d bytes instead of %d", path, status, len(body), len(content))
	}
}

// quiet waits until an idle upload is parked; any instance may fire its timer.
func quiet(t *testing.T, nodes []*node, token string) {
	t.Helper()
	id, _ := begin(t, nodes[0], token, "/quiet", 20_000_000)
	parked(t, nodes[1], token, id)
	if code, body := nodes[1].send(t, token, "DELETE", "/api/v1/uploads/"+id, nil); code != http.StatusNoContent {
		t.Errorf("cancel: %d %s", code, body)
	}
}

// parked waits until an upload is.
func parked(t *testing.T, n *node, token, id string) {
	t.Helper()
	process.Eventually(t, patience, "it is parked", func() error {
		_, body := n.send(t, token, "GET", "/api/v1/uploads/"+id, nil)
		var up struct{ State string }
		if err := json.Unmarshal(body, &up); err != nil || up.State != "parked" {
			return fmt.Errorf("%s, %v", body, err)
		}
		return nil
	})
}
