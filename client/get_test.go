package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
)

func newDownloader(t *testing.T, s *clienttest.Server) *Downloader {
	t.Helper()
	d, err := newClient(t, s).Downloader(DownloadOptions{PartSize: 1 << 20, RetryFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantLocal checks content and mtime, and that the folder contains nothing else.
func wantLocal(t *testing.T, path string, content []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%s: %d bytes, want %d, or they differ; %v", path, len(got), len(content), err)
	}
	info, err := os.Stat(path)
	if err != nil || !info.ModTime().Equal(mtime) {
		t.Errorf("mtime %v, %v", info.ModTime(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func isContent(method, path string) bool {
	return method == http.MethodGet && strings.HasSuffix(path, "/content")
}

func TestGetSurvivesEveryFaultAnywhere(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 300_000, 5*mib + 7} {
		content := randomBytes(20, size)
		for _, fault := range []clienttest.Fault{
			clienttest.None, clienttest.Refuse, clienttest.CutReply, clienttest.BadGateway, clienttest.Stopping,
		} {
			t.Run(fmt.Sprint(size, fault), func(t *testing.T) {
				t.Parallel()
				s := clienttest.New(t)
				s.Store("/f", content, mtime)
				var n atomic.Int64
				s.Inject(func(r *http.Request) clienttest.Fault {
					if isContent(r.Method, r.URL.Path) && n.Add(1)%2 == 1 {
						return fault
					}
					return clienttest.None
				})
				path := filepath.Join(t.TempDir(), "f")
				res, err := newDownloader(t, s).Get(t.Context(), "/f", path, GetOptions{})
				if err != nil || res.State != StateReceived {
					t.Fatalf("%s, %v", res.State, err)
				}
				wantLocal(t, path, content)
			})
		}
	}
}

func TestGetResumes(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	content := randomBytes(21, 10*mib)
	s.Store("/f", content, mtime)
	path := filepath.Join(t.TempDir(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isContent(r.Method, r.URL.Path) && n.Add(1) > 6 {
			cancel()
			return clienttest.Refuse
		}
		return clienttest.None
	})
	if _, err := newDownloader(t, s).Get(ctx, "/f", path, GetOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a partial file has the final name: %v", err)
	}
	s.Inject(nil)
	res, err := newDownloader(t, s).Get(t.Context(), "/f", path, GetOptions{})
	if err != nil || res.Moved >= int64(len(content)) {
		t.Fatalf("moved %d of %d: %v", res.Moved, len(content), err)
	}
	wantLocal(t, path, content)
}

// After a crash of the machine, the sidecar may list ranges whose bytes did not reach the disk.
func TestGetRepairsCorruptPartialFile(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	content := randomBytes(22, 3*mib)
	s.Store("/f", content, mtime)
	dir := t.TempDir()
	part, side := partNames("f")
	writeFile(t, filepath.Join(dir, part), make([]byte, 3*mib))
	n, err := newClient(t, s).NodeAt(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	lie := fmt.Sprintf(`{"etag":"\"b3-%s\"","size":%d,"part_size":%d,"done":[[0,1],[7,9]]}`, n.Digest(), n.Size, mib)
	writeFile(t, filepath.Join(dir, side), []byte(lie))
	if _, err := newDownloader(t, s).Get(t.Context(), "/f", filepath.Join(dir, "f"), GetOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLocal(t, filepath.Join(dir, "f"), content)
}

func TestGetFollowsReplacement(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	content := randomBytes(24, 4*mib)
	s.Store("/f", randomBytes(23, 6*mib), mtime)
	replaced := atomic.Bool{}
	s.Inject(func(r *http.Request) clienttest.Fault {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=3145728-") && replaced.CompareAndSwap(false, true) {
			s.Store("/f", content, mtime)
		}
		return clienttest.None
	})
	path := filepath.Join(t.TempDir(), "f")
	if _, err := newDownloader(t, s).Get(t.Context(), "/f", path, GetOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLocal(t, path, content)
}

func TestGetSkips(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.Store("/f", []byte("content"), mtime)
	dir := t.TempDir()
	same, other := writeFile(t, filepath.Join(dir, "same"), []byte("content")), writeFile(t, filepath.Join(dir, "other"), []byte("CONTENT"))
	touched := writeFile(t, filepath.Join(dir, "touched"), []byte("content"))
	for _, path := range []string{touched, other} {
		if err := os.Chtimes(path, mtime, mtime.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	d := newDownloader(t, s)
	for _, test := range []struct {
		path string
		opt  GetOptions
		want State
	}{
		{same, GetOptions{SkipSame: true}, StateSkipped},
		{touched, GetOptions{SkipSame: true}, StateSkipped},
		{other, GetOptions{Keep: true}, StateSkipped},
		{other, GetOptions{SkipSame: true}, StateReceived},
		{same, GetOptions{}, StateReceived},
	} {
		res, err := d.Get(t.Context(), "/f", test.path, test.opt)
		if err != nil || res.State != test.want {
			t.Errorf("%s %+v: %s, %v", filepath.Base(test.path), test.opt, res.State, err)
		}
	}
}

func TestGetTreeStaysInsideTarget(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.Store("/tree/link/escaped", []byte("x"), mtime)
	s.Store("/tree/sub/ok", []byte("ok"), mtime)
	dir := t.TempDir()
	outside, inside := filepath.Join(dir, "outside"), filepath.Join(dir, "inside")
	for _, path := range []string{outside, inside} {
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(inside, "link")); err != nil {
		t.Fatal(err)
	}
	sum, err := newDownloader(t, s).GetTree(t.Context(), "/tree", inside, TreeOptions{})
	if err != nil || sum.Failed != 1 || sum.Received != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside there is %v, %v", entries, err)
	}
	wantLocal(t, filepath.Join(inside, "sub", "ok"), []byte("ok"))
}
