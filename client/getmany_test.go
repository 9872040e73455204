package client

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"smartdrive/client/clienttest"
)

// A small file of which an interrupted download has left a part goes on there, and its neighbours
// come in a stream.
func TestGetTreeGoesOnWithAPart(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.TakesBatches(true)
	content := noise(31, 200_000)
	s.Store("/t/begun", content, mtime)
	s.Store("/t/other", noise(32, 1000), mtime)
	c := newClient(t, s)
	n, err := c.NodeAt(t.Context(), "/t/begun")
	if err != nil {
		t.Fatal(err)
	}
	const partSize = 64 << 10
	dir := t.TempDir()
	part, side := partNames("begun")
	there := make([]byte, len(content))
	copy(there, content[:2*partSize])
	writeFile(t, filepath.Join(dir, part), there)
	raw, err := json.Marshal(sidecar{ETag: `"b3-` + n.Digests[blake3Name] + `"`, Size: n.Size, PartSize: partSize, Done: []Span{{0, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, side), raw)
	d, err := c.Downloader(DownloadOptions{PartSize: partSize, GiveUp: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
	if want := int64(len(content) - 2*partSize + 1000); err != nil || sum.Received != 2 || sum.Bytes != want {
		t.Errorf("%+v, %v; want %d bytes", sum, err, want)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "begun")); err != nil || string(got) != string(content) {
		t.Errorf("%d bytes, %v, or they differ", len(got), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	if n := s.Requests(func(_, path string) bool { return strings.HasSuffix(path, "/batch/contents") }); n != 1 {
		t.Errorf("%d streams", n)
	}
}
