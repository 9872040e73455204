package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

func TestReopenKeepsContents(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d, 0, 1)
	wantNumbers(t, reopenDir(t, d), ref, file, 0, 1)
	for _, dir := range []string{stagingDir, blobsDir, quarantineDir} {
		info, err := os.Stat(filepath.Join(d.root, dir))
		if err != nil || info.Mode().Perm() != dirMode {
			t.Errorf("%q: %v, %v", dir, info, err)
		}
	}
}

func TestOpenRejectsUnusableDirectory(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	file := filepath.Join(parent, "file")
	noError(t, os.WriteFile(file, nil, fileMode))
	for _, dir := range []string{filepath.Join(parent, "no", "parent"), file} {
		if _, err := Open(t.Context(), Options{Dir: dir}); err == nil {
			t.Errorf("%s was opened", dir)
		}
	}
}

func TestListIncludesUnexpectedEntries(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, _ := newUpload(t, d, 2)
	id := ref.ID.String()
	other := "blobs/" + id[len(id)-1:] + "0/" + id // not its directory, unless the id ends so
	if other[6:8] == id[len(id)-2:] {
		other = "blobs/" + id[len(id)-1:] + "1/" + id
	}
	strays := []string{
		"blobs/lost", other, "blobs/ab/noise", "blobs/ab/put-1", "blobs/ABC/x",
		"staging/lost", "staging/2026/13/x", "staging/2026/11/20/noise", "staging/2026/11/20x",
	}
	for _, place := range strays {
		noError(t, os.MkdirAll(filepath.Dir(d.abs(place)), dirMode))
		noError(t, os.WriteFile(d.abs(place), []byte("12345"), fileMode))
	}
	found := map[string]blob.Entry{}
	collect := func(s blob.Entry) error {
		found[s.Path] = s
		return nil
	}
	noError(t, d.Blobs.List(t.Context(), collect))
	noError(t, d.Staging.ListStaged(t.Context(), collect))
	for place, name := range map[string]string{
		"blobs/lost": "", other: "", "blobs/ab/noise": "", "blobs/ab/put-1": "", "blobs/ABC": "", "staging/lost": "",
		"staging/2026/13": "", "staging/2026/11/20/noise": "", "staging/2026/11/20x": "", "staging/2026/11/20/" + id: id,
	} {
		s, ok := found[place]
		if !ok || s.Name != name || s.Size < 5 {
			t.Errorf("%s is shown as %+v (%v), want name %q", place, s, ok, name)
		}
		delete(found, place)
	}
	if len(found) > 0 {
		t.Errorf("also shown: %v", found)
	}
}

func TestQuarantineMovesOnlyItsEntry(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	noError(t, WriteMark(d.root, Mark{ID: "x", Generation: 1}))
	noError(t, os.MkdirAll(d.abs("blobs/ab"), dirMode))
	noError(t, os.MkdirAll(d.abs("staging/2026/11/20"), dirMode))
	for _, place := range []string{
		"", ".", "blobs", "blobs/", "blobs/ab", "blobs/ab/..", "blobs/../installation", "installation", "../x", "/etc/passwd",
		"staging/2026", "blobs/ab/../../installation",
	} {
		if err := d.Blobs.Quarantine(t.Context(), blob.Entry{Path: place}); err == nil {
			t.Errorf("%q was moved", place)
		}
	}
	for _, place := range []string{"staging", "staging/2026", "staging/2026/11", "staging/2026/11/20", "blobs/x"} {
		if err := d.Staging.QuarantineStaged(t.Context(), blob.Entry{Path: place}); err == nil {
			t.Errorf("%q was moved", place)
		}
	}
	for _, content := range []string{"first", "second"} { // one name, twice a day
		noError(t, os.WriteFile(d.abs("blobs/ab/noise"), []byte(content), fileMode))
		noError(t, d.Blobs.Quarantine(t.Context(), blob.Entry{Path: "blobs/ab/noise"}))
	}
	kept, err := filepath.Glob(filepath.Join(d.root, quarantineDir, "*", "*"))
	noError(t, err)
	var contents []string
	for _, path := range kept {
		b, err := os.ReadFile(path)
		noError(t, err)
		contents = append(contents, string(b))
	}
	slices.Sort(contents)
	if strings.Join(contents, " ") != "first second" {
		t.Errorf("quarantine holds %v", contents)
	}
}

func TestWriteMarkReplacesMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, found, err := ReadMark(filepath.Join(dir, "missing")); found || err != nil {
		t.Errorf("no directory: %v, %v", found, err)
	}
	if _, found, err := ReadMark(dir); found || err != nil {
		t.Errorf("no mark: %v, %v", found, err)
	}
	for generation := range int64(3) {
		want := Mark{ID: "0190", Generation: generation}
		noError(t, os.WriteFile(filepath.Join(dir, markTemp), []byte("left by a crash"), fileMode))
		noError(t, WriteMark(dir, want))
		if got, found, err := ReadMark(dir); got != want || !found || err != nil {
			t.Errorf("mark is %v, %v, %v, want %v", got, found, err, want)
		}
	}
	for _, damaged := range []string{"", "{", `{"id":"","generation":1}`, `{"id":"x","generation":-1}`} {
		noError(t, os.WriteFile(filepath.Join(dir, markFile), []byte(damaged), fileMode))
		if _, _, err := ReadMark(dir); err == nil {
			t.Errorf("%q is taken for a mark", damaged)
		}
	}
}

func TestClassifyKeepsDriveErrors(t *testing.T) {
	t.Parallel()
	known := drive.Fail(drive.PartSize)
	for err, want := range map[error]drive.Kind{
		known: drive.PartSize, os.ErrNotExist: drive.NotFound, errors.New("other"): drive.Internal,
	} {
		if got := drive.KindOf(classify(err)); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
	if classify(nil) != nil {
		t.Error("no error became one")
	}
}

func TestForeignJournalIsRefused(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, _ := newUpload(t, d, 0)
	other := ref
	other.PartSize *= 2
	if _, err := d.Staging.Load(t.Context(), other); err == nil {
		t.Error("a journal of another part size is taken")
	}
	moved := blobtest.NewRef(ref.Size)
	noError(t, os.Rename(d.stagedDir(ref), d.stagedDir(moved)))
	if _, err := d.Staging.Load(t.Context(), moved); err == nil {
		t.Error("the journal of another upload is taken")
	}
}
