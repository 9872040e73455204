package client

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/client/clienttest"
	"example.org/smartdrive/internal/base/filelock"
)

// nested is a tree whose small files come in one stream.
func nested() map[string][]byte {
	return map[string][]byte{
		"a": randomBytes(1, 10), "b": randomBytes(2, 20), "sub/c": randomBytes(3, 30), "sub/deep/d": randomBytes(4, 40), "sub/e": randomBytes(5, 50), "z/f": randomBytes(6, 60),
	}
}

// Two concurrent runs into one folder do not disturb each other and leave nothing behind.
func TestConcurrentGetTree(t *testing.T) {
	t.Parallel()
	files, dir := nested(), t.TempDir()
	s := treeOf(t, files)
	d := onceCome(t, s, func() {
		sum, err := newDownloader(t, s).GetTree(t.Context(), "/t", dir, TreeOptions{})
		if err != nil || sum.Received != len(files) {
			t.Errorf("the other: %+v, %v", sum, err)
		}
	})
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
	if err != nil || sum.Received != len(files) {
		t.Errorf("%+v, %v", sum, err)
	}
	wantTree(t, dir, files)
	if n := s.CountRequests(isContent); n != 0 {
		t.Errorf("%d files came by themselves: their parts were taken", n)
	}
}

// The next run removes the parts of a killed run, but not those of a live run.
func TestGetTreeRemovesPartsOfKilledRun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the next one", "one beside it", "two were killed", "a folder has gone", "a run file with other lines"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, was, dir := nested(), t.TempDir(), t.TempDir()
			s := treeOf(t, files)
			die := func(into string) { // a copy is what a process that is killed leaves: nobody has its locks
				if err := os.CopyFS(into, os.DirFS(was)); err != nil {
					t.Error(err)
				}
			}
			if _, err := onceCome(t, s, func() { die(dir) }).GetTree(t.Context(), "/t", was, TreeOptions{}); err != nil {
				t.Fatal(err)
			}
			if left := partsIn(t, filepath.Join(dir, "sub")); len(left) < 2 { // and, where there are drafts, one of deep
				t.Fatalf("the dead run has left %q", left)
			}
			d := newDownloader(t, s)
			switch name {
			case "one beside it":
				dead := dir
				dir = t.TempDir()
				d = onceCome(t, s, func() {
					if err := os.CopyFS(dir, os.DirFS(dead)); err != nil {
						t.Error(err)
					}
				})
			case "two were killed":
				was = t.TempDir()
				if _, err := onceCome(t, s, func() { die(dir) }).GetTree(t.Context(), "/t", was, TreeOptions{}); err != nil {
					t.Fatal(err)
				}
			case "a folder has gone":
				if err := os.RemoveAll(filepath.Join(dir, "z")); err != nil {
					t.Fatal(err)
				}
				writeFile(t, filepath.Join(dir, "sub", "deep.txt"), nil)
				files["sub/deep.txt"] = nil
			case "a run file with other lines":
				runs, err := filepath.Glob(filepath.Join(dir, ".smartdrive-*.run"))
				if err != nil || len(runs) != 1 {
					t.Fatalf("%q, %v", runs, err)
				}
				raw, err := os.ReadFile(runs[0])
				if err != nil {
					t.Fatal(err)
				}
				cut, gone := strconv.Quote("sub")[:3], strconv.Quote("nowhere")+"\n"+strconv.Quote("a/nowhere")+"\n"
				writeFile(t, runs[0], slices.Concat([]byte(cut), raw, []byte(gone)))
			}
			sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
			if err != nil || sum.Received != len(nested()) {
				t.Errorf("%+v, %v", sum, err)
			}
			wantTree(t, dir, files)
		})
	}
}

// Another process may lock, remove or replace a run file before its creator locks it.
func TestTryLockUnderContention(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		others func(t *testing.T, root *os.Root)
		want   lockResult
	}{
		"nobody comes": {func(*testing.T, *os.Root) {}, lockAcquired},
		"another has it": {func(t *testing.T, root *os.Root) {
			f, err := root.OpenFile("f", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeQuietly(f) })
			if held, err := filelock.Try(f); held || err != nil {
				t.Fatal(held, err)
			}
		}, lockHeld},
		"it has gone": {func(t *testing.T, root *os.Root) {
			if err := root.Remove("f"); err != nil {
				t.Fatal(err)
			}
		}, lockStale},
		"it has its name, and another came": {func(t *testing.T, root *os.Root) {
			if err := errors.Join(root.Rename("f", "g"), root.WriteFile("f", nil, 0o666)); err != nil {
				t.Fatal(err)
			}
		}, lockStale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer closeQuietly(root)
			f, err := root.Create("f")
			if err != nil {
				t.Fatal(err)
			}
			defer closeQuietly(f)
			test.others(t, root)
			if got, err := tryLock(root, "f", f); got != test.want || err != nil {
				t.Errorf("%d, %v; want %d", got, err, test.want)
			}
		})
	}
}

// A second download of one target fails without disturbing the first; afterwards the target can be
// downloaded again.
func TestConcurrentGetFails(t *testing.T) {
	t.Parallel()
	content := randomBytes(7, 3*mib)
	s := treeOf(t, map[string][]byte{"f": content})
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var met atomic.Bool
	s.Inject(func(r *http.Request) clienttest.Fault {
		if isContent(r.Method, r.URL.Path) && met.CompareAndSwap(false, true) {
			if _, err := newDownloader(t, s).Get(t.Context(), "/t/f", path, GetOptions{}); !errors.Is(err, errInProgress) {
				t.Errorf("alone: %v", err)
			}
			sum, err := newDownloader(t, s).GetTree(t.Context(), "/t", dir, TreeOptions{})
			if err != nil || sum.Failed != 1 {
				t.Errorf("in a tree: %+v, %v", sum, err)
			}
		}
		return clienttest.None
	})
	for range 2 {
		if _, err := newDownloader(t, s).Get(t.Context(), "/t/f", path, GetOptions{}); err != nil {
			t.Error(err)
		}
		wantLocal(t, path, content)
	}
}

// A small file that cannot be renamed leaves no part.
func TestFailedGetTreeLeavesNoParts(t *testing.T) {
	t.Parallel()
	files, dir := nested(), t.TempDir()
	d := onceCome(t, treeOf(t, files), func() { mkdir(t, filepath.Join(dir, "sub", "c")) })
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
	if err != nil || sum.Failed != 1 || sum.Received != len(files)-1 {
		t.Errorf("%+v, %v", sum, err)
	}
	delete(files, "sub/c")
	wantTree(t, dir, files)
}

// The leftovers of an interrupted download are removed when a tree delivers the file, and when the
// file is already there.
func TestGetTreeRemovesStaleParts(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{"small": randomBytes(8, 10), "large": randomBytes(9, maxStreamedFile+1), "there": randomBytes(10, 20), "large there": randomBytes(11, maxStreamedFile+2)}
	dir := t.TempDir()
	for name, content := range files {
		part, side := partNames(name)
		writeFile(t, filepath.Join(dir, part), content[:5])
		writeFile(t, filepath.Join(dir, side), []byte("{}"))
		writeFile(t, filepath.Join(dir, side+"~"), []byte("{"))
		if strings.HasSuffix(name, "there") {
			writeFile(t, filepath.Join(dir, name), content)
		}
	}
	sum, err := newDownloader(t, treeOf(t, files)).GetTree(t.Context(), "/t", dir, TreeOptions{SkipSame: true})
	if err != nil || sum.Received != 2 || sum.Skipped != 2 {
		t.Errorf("%+v, %v", sum, err)
	}
	wantTree(t, dir, files)
}

// Reserved names are neither downloaded to nor uploaded.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	part, side := partNames("victim")
	own := []string{part, side, side + "~", runPartName(".smartdrive-0123456789abcdef", 12), ".smartdrive-0123456789abcdef.run", strings.ToUpper(part)}
	others := []string{".smartdrive-notes", ".smartdrive-0123456789abcdef", "x" + part, part + "x", ".smartdrive-0123456789abcdef-.part", ".smartdrive-0123456789abcde.part", "part"}
	files := map[string][]byte{"victim": randomBytes(12, 100)}
	for _, name := range others {
		files[name] = randomBytes(13, 10)
	}
	s := treeOf(t, files)
	dir := t.TempDir()
	for _, name := range own {
		s.Store("/t/"+name, randomBytes(14, 10), mtime)
		if _, err := newDownloader(t, s).Get(t.Context(), "/t/victim", filepath.Join(dir, name), GetOptions{}); !errors.Is(err, errTempName) {
			t.Errorf("get to %s: %v", name, err)
		}
	}
	s.Store("/t/.smartdrive-0123456789abcdee.part/inside", nil, mtime) // a folder
	failed := 0
	sum, err := newDownloader(t, s).GetTree(t.Context(), "/t", dir, TreeOptions{OnItem: func(i Item) {
		if errors.Is(i.Err, errTempName) {
			failed++
		}
	}})
	if err != nil || failed != len(own)+1 || sum.Failed != failed || sum.Received != len(files) {
		t.Errorf("%+v, %v; %d names refused", sum, err, failed)
	}
	wantTree(t, dir, files)

	for _, name := range own {
		writeFile(t, filepath.Join(dir, name), []byte("of a download"))
	}
	var whole TreeProgress
	sum, err = newUploader(t, s).PutTree(t.Context(), dir, "/back", TreeOptions{TreeProgress: func(w TreeProgress) { whole = w }})
	if err != nil || sum.Sent != len(files) || sum.Unfinished != len(own) || whole.Counted && whole.TotalFiles != int64(len(files)) { // a tree that is sent before it is counted is not
		t.Errorf("back: %+v, %v; %+v", sum, err, whole)
	}
	for name, content := range files {
		if got, _ := s.File("/back/" + name); !bytes.Equal(got, content) {
			t.Errorf("/back/%s has %d bytes, or they differ", name, len(got))
		}
	}
}
