package client

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/client/clienttest"
)

// storeFolders stores a file in each of some folders in /t, and returns the folders' ids by name.
func storeFolders(t *testing.T, s *clienttest.Server, c *Client, names ...string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for i, name := range names {
		s.Store("/t/"+name+"/file", randomBytes(uint64(i), 100), mtime)
		n, err := c.NodeAt(t.Context(), "/t/"+name)
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = n.ID
	}
	return ids
}

func isListOf(r *http.Request, id string) bool {
	return strings.HasSuffix(r.URL.Path, "/"+id+"/children")
}

// barrier delays the listings of the first folders until all of them have been requested.
func barrier(t *testing.T, ids map[string]string) func(*http.Request) clienttest.Fault {
	meet := newBarrier(t, 1+prefetchFolders)
	return func(r *http.Request) clienttest.Fault {
		for name, id := range ids {
			if name <= "h" && isListOf(r, id) {
				meet()
			}
		}
		return clienttest.None
	}
}

// While the first folder is listed, the following listings are already in flight, for downloads and
// for repeated uploads.
func TestTreeListingsArePrefetched(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.EnableBatches(true)
	c := newClient(t, s)
	ids := storeFolders(t, s, c, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	isList := func(_, path string) bool { return strings.HasSuffix(path, "/children") }
	d := newDownloader(t, s)
	dir := t.TempDir()
	s.Inject(barrier(t, ids))
	if sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{}); err != nil || sum.Received != len(ids) || sum.Folders != len(ids) {
		t.Errorf("%+v, %v", sum, err)
	}
	if n := s.CountRequests(isList); n != 1+len(ids) {
		t.Errorf("%d lists were asked for, want %d", n, 1+len(ids))
	}
	u := newUploader(t, s)
	s.Inject(barrier(t, ids))
	if sum, err := u.PutTree(t.Context(), dir, "/t", TreeOptions{SkipSame: true}); err != nil || sum.Skipped != len(ids) || sum.Sent != 0 || sum.Folders != 0 {
		t.Errorf("sent once more: %+v, %v", sum, err)
	}
	if n := s.CountRequests(isList); n != 2+2*len(ids) {
		t.Errorf("%d lists were asked for in all, want %d", n, 2+2*len(ids))
	}
}

// A folder that was deleted since it was listed is created again.
func TestPutTreeRecreatesDeletedFolder(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.EnableBatches(true)
	c := newClient(t, s)
	ids := storeFolders(t, s, c, "a", "b", "c")
	dir := t.TempDir()
	for name := range ids {
		writeFile(t, filepath.Join(dir, name, "file"), randomBytes(9, 101))
	}
	var once sync.Once
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isListOf(r, ids["b"]) {
			once.Do(func() {
				if err := c.DeleteNode(context.WithoutCancel(r.Context()), ids["b"], true); err != nil {
					t.Error(err)
				}
			})
		}
		return clienttest.None
	})
	u := newUploader(t, s)
	sum, err := u.PutTree(t.Context(), dir, "/t", TreeOptions{SkipSame: true, Conflict: Replace})
	if err != nil || sum.Sent != len(ids) || sum.Folders != 1 || sum.Failed != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	for name := range ids {
		wantFile(t, s, "/t/"+name+"/file", randomBytes(9, 101))
	}
}

// A folder whose prefetched listing fails is reported once; the others arrive.
func TestGetTreeListingFails(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.EnableBatches(true)
	c := newClient(t, s)
	ids := storeFolders(t, s, c, "a", "b", "c")
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isListOf(r, ids["b"]) {
			return clienttest.TooLarge
		}
		return clienttest.None
	})
	d := newDownloader(t, s)
	dir := t.TempDir()
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
	if err != nil || sum.Received != 2 || sum.Failed != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	for _, name := range []string{"a", "c"} {
		if _, err := os.Stat(filepath.Join(dir, name, "file")); err != nil {
			t.Error(err)
		}
	}
}

// A stopped download does not wait for listings.
func TestGetTreeStopsDuringListing(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.EnableBatches(true)
	c := newClient(t, s)
	ids := storeFolders(t, s, c, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isListOf(r, ids["a"]) {
			stop(enough)
			<-r.Context().Done()
		}
		return clienttest.None
	})
	d := newDownloader(t, s)
	if sum, err := d.GetTree(ctx, "/t", t.TempDir(), TreeOptions{}); !errors.Is(err, enough) || sum.Received != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// The number of waiting listings is bounded at any depth, and everything arrives.
func TestPrefetchIsBounded(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	c := newClient(t, s)
	w := &pool{}
	l := newLister(c, w)
	ctx, stop := context.WithCancel(t.Context())
	var levels []*prefetch
	for range maxPrefetched {
		levels = append(levels, l.prefetch(ctx, []string{Root, "other", "third"}))
	}
	if len(l.slots) != maxPrefetched {
		t.Errorf("%d lists wait, want %d", len(l.slots), maxPrefetched)
	}
	for _, x := range levels {
		x.stop()
	}
	if len(l.slots) != 0 {
		t.Errorf("%d lists hold their room after the end", len(l.slots))
	}
	stop()
	w.running.Wait()
}
