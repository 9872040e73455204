package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/client/clienttest"
)

// partsIn returns the names of the parts and drafts in a folder.
func partsIn(t *testing.T, dir string) []string {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, ".smartdrive-*-*.part"))
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// needsDrafts skips a test on Windows, which has no drafts because its rename does not replace a
// folder.
func needsDrafts(t *testing.T) {
	t.Helper()
	if !canReplaceFolders {
		t.Skip("no drafts: a folder cannot be renamed to an empty one on this system")
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%s has %q, %v; want %q", filepath.Base(dir), names, err, want)
	}
}

// A created folder gets its files at once. If the folder or its draft was changed before, no
// foreign file is lost, and missing files are downloaded again.
func TestGetTreePublishesFolderByDraft(t *testing.T) {
	t.Parallel()
	needsDrafts(t)
	files := map[string][]byte{"top": randomBytes(1, 10), "in/sub/a": randomBytes(2, 20), "in/sub/b": randomBytes(3, 30), "in/z/c": randomBytes(4, 40)}
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, sub, draft string)
		others    map[string][]byte // in sub, afterwards
		alone     int               // files that are fetched by themselves
	}{
		"nothing happens": {meanwhile: func(*testing.T, string, string) {}},
		"others put a file there": {
			meanwhile: func(t *testing.T, sub, _ string) { writeFile(t, filepath.Join(sub, "mine"), []byte("mine")) },
			others:    map[string][]byte{"mine": []byte("mine")},
		},
		"others put a file of that name there": {
			meanwhile: func(t *testing.T, sub, _ string) { writeFile(t, filepath.Join(sub, "a"), []byte("another")) },
		},
		"the folder has gone": {
			meanwhile: func(t *testing.T, sub, _ string) { remove(t, sub) },
		},
		"the draft has gone": {
			meanwhile: func(t *testing.T, _, draft string) {
				if err := os.RemoveAll(draft); err != nil {
					t.Error(err)
				}
			},
			alone: 2,
		},
		"a file has gone from the draft": {
			meanwhile: func(t *testing.T, _, draft string) { remove(t, filepath.Join(draft, "b")) },
			alone:     1,
		},
		"the folder above is made again": {
			meanwhile: func(t *testing.T, sub, _ string) {
				rename(t, filepath.Dir(sub), filepath.Dir(sub)+" moved")
				mkdir(t, filepath.Dir(sub))
				mkdir(t, sub)
				mkdir(t, filepath.Join(filepath.Dir(sub), "z"))
			},
			alone: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := treeOf(t, files), filepath.Join(t.TempDir(), "t")
			sub := filepath.Join(dir, "in", "sub")
			d := onceCome(t, s, func() {
				wantNames(t, sub)
				for _, draft := range partsIn(t, filepath.Dir(sub)) {
					if _, err := os.Stat(filepath.Join(draft, "a")); err == nil {
						wantNames(t, draft, "a", "b")
						test.meanwhile(t, sub, draft)
						return
					}
				}
				t.Error("there is no draft")
			})
			sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
			if err != nil || sum.Received != len(files) {
				t.Errorf("%+v, %v", sum, err)
			}
			if n := s.CountRequests(isContent); n != test.alone {
				t.Errorf("%d files came by themselves, want %d", n, test.alone)
			}
			want := maps.Clone(files)
			for name, content := range test.others {
				want["in/sub/"+name] = content
			}
			if name == "the folder above is made again" {
				remove(t, partsIn(t, filepath.Join(dir, "in moved"))...)
			}
			wantTree(t, dir, want)
		})
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	}
}

// A file of a draft that cannot be synced fails; the other files arrive.
func TestGetTreeDraftFileSyncFails(t *testing.T) {
	t.Parallel()
	needsDrafts(t)
	files, dir := map[string][]byte{"sub/a": randomBytes(1, 10), "sub/b": randomBytes(2, 20), "sub/c": randomBytes(3, 30)}, t.TempDir()
	d := onceCome(t, treeOf(t, files), func() {
		parts := partsIn(t, dir)
		if len(parts) != 1 {
			t.Errorf("parts %q", parts)
			return
		}
		remove(t, filepath.Join(parts[0], "b"))
		mkdir(t, filepath.Join(parts[0], "b"))
	})
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
	if err != nil || sum.Received != 2 || sum.Failed != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	delete(files, "sub/b")
	wantTree(t, dir, files)
}

// A file fails if it cannot be moved out of its draft because the folder has another file of that
// name.
func TestGetTreeDraftFileRenameFails(t *testing.T) {
	t.Parallel()
	files, dir := map[string][]byte{"sub/a": randomBytes(1, 10), "sub/b": randomBytes(2, 20)}, t.TempDir()
	d := onceCome(t, treeOf(t, files), func() { mkdir(t, filepath.Join(dir, "sub", "b")) })
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
	if err != nil || sum.Received != 1 || sum.Failed != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	delete(files, "sub/b")
	wantTree(t, dir, files)
}

// The next run removes the drafts of a killed run, also in folders without other files.
func TestGetTreeRemovesDraftsOfKilledRun(t *testing.T) {
	t.Parallel()
	files, was, dir := map[string][]byte{"in/sub/a": randomBytes(1, 10), "in/z/b": randomBytes(2, 20)}, t.TempDir(), t.TempDir()
	s := treeOf(t, files)
	d := onceCome(t, s, func() {
		if err := os.CopyFS(dir, os.DirFS(was)); err != nil { // nobody has the locks of what is copied
			t.Error(err)
		}
	})
	if _, err := d.GetTree(t.Context(), "/t", was, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	if left := partsIn(t, filepath.Join(dir, "in")); canReplaceFolders && len(left) != 2 {
		t.Fatalf("the dead run has left %q", left)
	}
	if _, err := newDownloader(t, s).GetTree(t.Context(), "/t", dir, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, files)
}

// A folder that also gets files outside of streams has no draft.
func TestGetTreeFoldersWithoutDraft(t *testing.T) {
	t.Parallel()
	many := map[string][]byte{}
	for i := range MaxBatchItems + 10 {
		many[fmt.Sprintf("sub/%d", i)] = nil
	}
	for name, test := range map[string]struct {
		files map[string][]byte
		opt   TreeOptions
		there bool
	}{
		"a large file":        {files: map[string][]byte{"sub/a": randomBytes(1, 10), "sub/large": randomBytes(2, maxStreamedFile+1)}},
		"a folder in it":      {files: map[string][]byte{"sub/a": randomBytes(1, 10), "sub/deep/large": randomBytes(2, maxStreamedFile+1)}},
		"too many":            {files: many},
		"it was there":        {files: map[string][]byte{"sub/a": randomBytes(1, 10)}, there: true},
		"what is there stays": {files: map[string][]byte{"sub/a": randomBytes(1, 10)}, opt: TreeOptions{Keep: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if test.there {
				mkdir(t, filepath.Join(dir, "sub"))
			}
			d := onceCome(t, treeOf(t, test.files), func() {
				if parts := partsIn(t, dir); len(parts) > 0 {
					t.Errorf("drafts %q", parts)
				}
			})
			sum, err := d.GetTree(t.Context(), "/t", dir, test.opt)
			if err != nil || sum.Received != len(test.files) {
				t.Errorf("%+v, %v", sum, err)
			}
			wantTree(t, dir, test.files)
		})
	}
}

// If a stream breaks within a folder, the received files are kept and the rest comes in another
// stream.
func TestGetTreeBrokenStreamWithinDraft(t *testing.T) {
	t.Parallel()
	files, dir := map[string][]byte{}, t.TempDir()
	for i := range 20 {
		files[fmt.Sprintf("sub/%02d", i)] = randomBytes(uint64(i), 1000)
	}
	s := treeOf(t, files)
	var streams atomic.Int64
	d := forge(t, s, func(raw []byte) io.Reader {
		if streams.Add(1) == 1 {
			return bytes.NewReader(raw[:len(raw)/2])
		}
		if entries, err := os.ReadDir(filepath.Join(dir, "sub")); err != nil || len(entries) == 0 || len(entries) == len(files) {
			t.Errorf("%d files are there, %v", len(entries), err)
		}
		return bytes.NewReader(raw)
	})
	sum, err := d.GetTree(t.Context(), "/t", dir, TreeOptions{})
	if err != nil || sum.Received != len(files) || streams.Load() != 2 {
		t.Errorf("%+v, %v; %d streams", sum, err, streams.Load())
	}
	wantTree(t, dir, files)
	if n := s.CountRequests(isContent); n != 0 {
		t.Errorf("%d files came by themselves", n)
	}
}

// An opened empty folder is replaced by another run's draft.
func TestStreamReopensReplacedFolder(t *testing.T) {
	t.Parallel()
	needsDrafts(t)
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(root)
	if err := errors.Join(root.Mkdir("sub", 0o777), root.Mkdir("draft", 0o777), root.WriteFile("draft/theirs", nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	s := &stream{dirs: dirCache{root: root}}
	defer s.dirs.close()
	if _, err := s.dirs.open("sub"); err != nil {
		t.Fatal(err)
	}
	d := &draft{folder: "sub", path: "draft"}
	if err := replaceWithDraft(root, d, 2, true); !errors.Is(err, errDraftChanged) {
		t.Errorf("a draft that has lost a file: %v", err)
	}
	if err := replaceWithDraft(root, d, 1, true); err != nil {
		t.Fatal(err)
	}
	_, f, err := s.create("sub", "ours")
	if err != nil {
		t.Fatal(err)
	}
	closeQuietly(f)
	wantNames(t, filepath.Join(root.Name(), "sub"), "ours", "theirs")
	if err := errors.Join(root.Mkdir("draft", 0o777), replaceWithDraft(root, d, 0, true)); err == nil {
		t.Error("a folder with files was replaced")
	}
}

// put -r skips the draft of a killed run.
func TestPutTreeSkipsDrafts(t *testing.T) {
	t.Parallel()
	s, dir := clienttest.New(t), t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("a"))
	draft := filepath.Join(dir, runPartName(tempPrefix+"0123456789abcdef", 3))
	mkdir(t, draft)
	writeFile(t, filepath.Join(draft, "half"), []byte("ha"))
	u, err := newClient(t, s).Uploader(UploadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var last TreeProgress
	sum, err := u.PutTree(t.Context(), dir, "/t", TreeOptions{TreeProgress: func(w TreeProgress) { last = w }})
	if err != nil || sum.Sent != 1 || sum.Unfinished != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if last.TotalFiles != 1 {
		t.Errorf("%+v", last)
	}
}
