package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
)

// A small file with a partial file of an interrupted download resumes there, while its neighbours
// come in a stream.
func TestGetTreeResumesPartialFile(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.EnableBatches(true)
	content := randomBytes(31, 200_000)
	s.Store("/t/begun", content, mtime)
	s.Store("/t/other", randomBytes(32, 1000), mtime)
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
	d, err := c.Downloader(DownloadOptions{PartSize: partSize, RetryFor: 20 * time.Second})
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
	if n := s.CountRequests(isStream); n != 1 {
		t.Errorf("%d streams", n)
	}
}

// Files that changed since they were listed are downloaded as they are now, in a stream unless they
// have grown, whether the server sends revisions or whole nodes.
func TestGetTreeRefetchesChangedFiles(t *testing.T) {
	t.Parallel()
	for name, streams := range map[string]int{"revisions": 2, "nodes": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clienttest.New(t)
			s.EnableBatches(true)
			if name == "nodes" {
				s.IgnorePreferences()
			}
			want := map[string][]byte{"a/same": randomBytes(41, 1000), "a/changed": randomBytes(42, 3000), "b/grown": randomBytes(43, maxStreamedFile+1), "b/small": randomBytes(44, 10)}
			s.Store("/t/a/same", want["a/same"], mtime)
			s.Store("/t/a/changed", randomBytes(45, 3000), mtime)
			s.Store("/t/b/grown", randomBytes(46, 100), mtime)
			s.Store("/t/b/small", want["b/small"], mtime)
			var once sync.Once
			s.Inject(func(r *http.Request) clienttest.Fault {
				if strings.HasSuffix(r.URL.Path, "/batch/contents") {
					once.Do(func() {
						s.Store("/t/a/changed", want["a/changed"], mtime.Add(time.Hour))
						s.Store("/t/b/grown", want["b/grown"], mtime)
						s.Store("/t/b/small", want["b/small"], mtime.Add(time.Hour)) // only its time
					})
				}
				return clienttest.None
			})
			d, err := newClient(t, s).Downloader(DownloadOptions{RetryFor: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{}); err != nil || sum.Received != len(want) {
				t.Errorf("%+v, %v", sum, err)
			}
			for rel, content := range want {
				if got, err := os.ReadFile(filepath.Join(dir, rel)); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s: %d bytes, %v, or they differ", rel, len(got), err)
				}
			}
			for _, rel := range []string{"a/changed", "b/small"} {
				if info, err := os.Stat(filepath.Join(dir, rel)); err != nil || !info.ModTime().Equal(mtime.Add(time.Hour)) {
					t.Errorf("%s: %v, %v", rel, info, err)
				}
			}
			if n := s.CountRequests(isStream); n != streams {
				t.Errorf("%d streams, want %d", n, streams)
			}
			if n := s.CountRequests(isContent); n != 1 {
				t.Errorf("%d files came by themselves", n)
			}
		})
	}
}

// With Keep, files that appear in an empty folder during its listing are not replaced.
func TestGetTreeKeepsFilesCreatedMeanwhile(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.EnableBatches(true)
	s.Store("/t/mine", randomBytes(51, 1000), mtime)
	s.Store("/t/other", randomBytes(52, 1000), mtime)
	dir, mine := t.TempDir(), []byte("written here")
	var once sync.Once
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasSuffix(r.URL.Path, "/children") {
			once.Do(func() { writeFile(t, filepath.Join(dir, "mine"), mine) })
		}
		return clienttest.None
	})
	d, err := newClient(t, s).Downloader(DownloadOptions{RetryFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{Keep: true})
	if err != nil || sum.Received != 1 || sum.Skipped != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "mine")); err != nil || !bytes.Equal(got, mine) {
		t.Errorf("what was there is %q, %v", got, err)
	}
}

// Files that a stream cannot deliver are downloaded concurrently, because each may take long to
// fail.
func TestGetTreeFetchesOddFilesConcurrently(t *testing.T) {
	t.Parallel()
	const odd = 8
	s := clienttest.New(t)
	s.EnableBatches(true)
	for i := range odd {
		s.Store(fmt.Sprintf("/t/%d", i), randomBytes(uint64(i), 100), mtime)
	}
	var grown sync.Once
	meet := newBarrier(t, odd)
	s.Inject(func(r *http.Request) clienttest.Fault {
		switch {
		case isStream(r.Method, r.URL.Path):
			grown.Do(func() {
				for i := range odd {
					s.Store(fmt.Sprintf("/t/%d", i), randomBytes(uint64(i), maxStreamedFile+1), mtime)
				}
			})
		case isContent(r.Method, r.URL.Path):
			meet()
		}
		return clienttest.None
	})
	if sum, err := newDownloader(t, s).GetTree(t.Context(), "/t", t.TempDir(), TreeOptions{}); err != nil || sum.Received != odd {
		t.Errorf("%+v, %v", sum, err)
	}
}
