package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
)

func isStream(_, path string) bool { return strings.HasSuffix(path, "/batch/contents") }

// forged modifies the streams of files that the client receives.
type forged struct {
	*http.Transport
	change func(raw []byte) io.Reader
}

func (f forged) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.Transport.RoundTrip(r)
	if err != nil || !isStream(r.Method, r.URL.Path) {
		return resp, err
	}
	raw, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(f.change(raw))
	return resp, err
}

// readerFunc is called when what was before it has been taken.
type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// forge returns a downloader whose streams are changed.
func forge(t *testing.T, s *clienttest.Server, change func(raw []byte) io.Reader) *Downloader {
	t.Helper()
	c := newClient(t, s)
	c.http.Transport = forged{newTransport(), change}
	d, err := c.Downloader(DownloadOptions{RetryFor: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// onceCome returns a downloader that calls do when the files of its first stream are staged and not
// yet renamed.
func onceCome(t *testing.T, s *clienttest.Server, do func()) *Downloader {
	t.Helper()
	var once sync.Once
	return forge(t, s, func(raw []byte) io.Reader {
		last := bytes.LastIndex(raw, []byte(`{"status"`))
		return io.MultiReader(bytes.NewReader(raw[:last]), readerFunc(func() { once.Do(do) }), bytes.NewReader(raw[last:]))
	})
}

// treeOf returns a server with these files in a folder.
func treeOf(t *testing.T, files map[string][]byte) *clienttest.Server {
	t.Helper()
	s := clienttest.New(t)
	s.EnableBatches(true)
	for name, content := range files {
		s.Store("/t/"+name, content, mtime)
	}
	return s
}

// wantTree checks that a folder contains exactly these files and no drafts.
func wantTree(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	var n int
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && isTempName(entry.Name()) {
			t.Errorf("%s is left", path)
		}
		if err != nil || entry.IsDir() {
			return err
		}
		n++
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, there := files[filepath.ToSlash(rel)]
		if got, err := os.ReadFile(path); !there || err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d, or they differ; %v", rel, len(got), len(want), err)
		}
		return nil
	})
	if err != nil || n != len(files) {
		t.Errorf("%d files, want %d; %v", n, len(files), err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Error(err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Error(err)
	}
}

// If a folder is renamed during the download and created again, its files are downloaded again. If
// it is not created again, they fail.
func TestGetTreeDetectsMovedFolders(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"made again": true, "gone": false} {
		for which, files := range map[string]map[string][]byte{
			"the last": {"a": randomBytes(1, 10), "sub/b": randomBytes(2, 20), "sub/c": randomBytes(3, 30)},
			"another":  {"sub/b": randomBytes(2, 20), "sub/c": randomBytes(3, 30), "z/d": randomBytes(4, 40)},
		} {
			t.Run(name+", "+which, func(t *testing.T) {
				t.Parallel()
				dir, away := t.TempDir(), t.TempDir()
				mkdir(t, filepath.Join(dir, "sub")) // so that it has no draft
				d := onceCome(t, treeOf(t, files), func() {
					rename(t, filepath.Join(dir, "sub"), filepath.Join(away, "sub"))
					if again {
						mkdir(t, filepath.Join(dir, "sub"))
					}
				})
				sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
				if !again {
					if err != nil || sum.Received != 1 || sum.Failed != 2 {
						t.Errorf("%+v, %v", sum, err)
					}
					return
				}
				if err != nil || sum.Received != 3 {
					t.Errorf("%+v, %v", sum, err)
				}
				wantTree(t, dir, files)
			})
		}
	}
}

// The same for a large file and for the top folder, where it is an error.
func TestGetDetectsMovedFolder(t *testing.T) {
	t.Parallel()
	content := randomBytes(5, maxStreamedFile+1)
	for name, get := range map[string]func(d *Downloader, dir string) (failed error){
		"in a tree": func(d *Downloader, dir string) (failed error) {
			_, err := d.GetTree(t.Context(), "/t", filepath.Dir(dir), TreeOptions{OnItem: func(i Item) { failed = i.Err }})
			return errors.Join(failed, err)
		},
		"a tree": func(d *Downloader, dir string) error {
			_, err := d.GetTree(t.Context(), "/t/sub", dir, TreeOptions{})
			return err
		},
		"alone": func(d *Downloader, dir string) error {
			_, err := d.Get(t.Context(), "/t/sub/f", filepath.Join(dir, "f"), GetOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := treeOf(t, map[string][]byte{"sub/f": content})
			dir := filepath.Join(t.TempDir(), "sub")
			mkdir(t, dir)
			var once sync.Once
			s.Inject(func(r *http.Request) clienttest.Fault {
				if isContent(r.Method, r.URL.Path) {
					once.Do(func() {
						rename(t, dir, dir+" moved")
						mkdir(t, dir)
					})
				}
				return clienttest.None
			})
			if err := get(newDownloader(t, s), dir); !errors.Is(err, errFolderMoved) {
				t.Errorf("it moved: %v", err)
			}
			if err := get(newDownloader(t, s), dir); err != nil {
				t.Errorf("it stays: %v", err)
			}
			wantTree(t, dir, map[string][]byte{"f": content})
		})
	}
}

// A file that cannot be synced fails; the other files of its stream arrive.
func TestGetTreeFileSyncFails(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"a": randomBytes(1, 10), "b": randomBytes(2, 20), "c": randomBytes(3, 30)}
	dir := t.TempDir()
	var failed []string
	d := onceCome(t, treeOf(t, files), func() {
		parts, err := filepath.Glob(filepath.Join(dir, ".smartdrive-*.part"))
		if err != nil || len(parts) != len(files) {
			t.Errorf("parts %q, %v", parts, err)
			return
		}
		if err := os.Remove(parts[0]); err != nil {
			t.Error(err)
		}
		mkdir(t, parts[0])
	})
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{OnItem: func(i Item) {
		if i.Err != nil {
			failed = append(failed, filepath.Base(i.Path))
		}
	}})
	if err != nil || sum.Received != len(files)-1 || len(failed) != 1 {
		t.Fatalf("%+v, %v; failed %q", sum, err, failed)
	}
	delete(files, failed[0])
	for name, content := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v, or they differ", name, len(got), err)
		}
	}
}

// An overlong line fails at once without retry, because the next stream would contain it, too.
func TestGetTreeRejectsLongLine(t *testing.T) {
	t.Parallel()
	s := treeOf(t, map[string][]byte{"a": randomBytes(1, 10), "b": randomBytes(2, 20)})
	d := forge(t, s, func(raw []byte) io.Reader {
		return io.MultiReader(bytes.NewReader(bytes.Repeat([]byte(" "), maxLine)), bytes.NewReader(raw))
	})
	var told error
	sum, err := d.GetTree(t.Context(), "/t", t.TempDir(), TreeOptions{OnItem: func(i Item) { told = i.Err }})
	if err != nil || sum.Failed != 2 || !errors.Is(told, errLongLine) {
		t.Errorf("%+v, %v; told %v", sum, err, told)
	}
	if n := s.CountRequests(isStream); n != 1 {
		t.Errorf("%d streams", n)
	}
}

// A stream that ends after its last file but before the end line has delivered all files.
func TestGetTreeStreamWithoutEndLine(t *testing.T) {
	t.Parallel()
	s := treeOf(t, map[string][]byte{"a": randomBytes(1, 10), "b": randomBytes(2, 20)})
	d := forge(t, s, func(raw []byte) io.Reader { return bytes.NewReader(raw[:bytes.LastIndex(raw, []byte(`{"status"`))]) })
	sum, err := d.GetTree(t.Context(), "/t", t.TempDir(), TreeOptions{Progress: func(Event) {}})
	if err != nil || sum.Received != 2 || sum.Failed != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if n := s.CountRequests(isStream); n != 1 {
		t.Errorf("%d streams", n)
	}
}
