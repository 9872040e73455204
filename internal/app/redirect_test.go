package app

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"example.org/smartdrive/client"
)

// wire notes what goes where.
type wire struct {
	mu   sync.Mutex
	sent map[string][]http.Header // by host
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent[r.URL.Host] = append(w.sent[r.URL.Host], r.Header.Clone())
	w.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// With --download-redirect all content is downloaded from the object store, after uploads in parts
// and after single requests. The presigned URLs reveal nothing beyond what the download needs.
func TestDownloadsComeFromTheStore(t *testing.T) {
	t.Setenv("SMARTDRIVE_ADMIN_PASSWORD", clusterPassword)
	cfg := testConfig(t, append(clusterArgs(t, false), "--download-redirect", "15m")...)
	n := start1(t, cfg)
	token := n.login(t)
	content := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(content)
	upload2(t, []*node{n}, token, "/large", content)
	if status, body := n.send(t, token, "PUT", "/api/v1/files/small", content[:1000]); status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	wire := &wire{sent: map[string][]http.Header{}}
	c, err := client.New(client.Options{BaseURL: n.url, Token: token, HTTPClient: &http.Client{Transport: wire}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Downloader(client.DownloadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"large": content, "small": content[:1000]} {
		path := filepath.Join(t.TempDir(), name)
		if _, err := d.Get(t.Context(), "/"+name, path, client.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
			t.Errorf("%s: %d bytes instead of %d, or they differ; %v", name, len(got), len(want), err)
		}
	}
	atStore := wire.sent[cfg.S3.Endpoint]
	if len(atStore) != 4 { // three ranges of the large file, and the small one
		t.Errorf("%d requests to the store", len(atStore))
	}
	for _, header := range atStore {
		if header.Get("Authorization") != "" || header.Get("Cookie") != "" || header.Get("Referer") != "" {
			t.Errorf("the store was sent %v", header)
		}
	}
}
