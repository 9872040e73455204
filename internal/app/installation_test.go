package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

func TestMarksAreCompared(t *testing.T) {
	t.Parallel()
	const id, other = "01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000002"
	for _, c := range []struct {
		name   string
		in     Installation
		mark   local.Mark // of the blobs; without an id there is none
		refuse string     // "" when they do
	}{
		{name: "both are new"},
		{name: "as the last stop left them", in: Installation{ID: id, Generation: 5}, mark: local.Mark{ID: id, Generation: 5}},
		{name: "the last start died before the mark", in: Installation{ID: id, Generation: 5}, mark: local.Mark{ID: id, Generation: 4}},
		{name: "the first start died before the mark", in: Installation{ID: id, Generation: 1}},
		{name: "an older database", in: Installation{ID: id, Generation: 4}, mark: local.Mark{ID: id, Generation: 5}, refuse: "older copy"},
		{name: "older blobs", in: Installation{ID: id, Generation: 5}, mark: local.Mark{ID: id, Generation: 3}, refuse: "older copy"},
		{name: "no blobs", in: Installation{ID: id, Generation: 2}, refuse: "not mounted"},
		{name: "no blobs at the second start ever", in: Installation{ID: id, Generation: 1, Marked: true}, refuse: "not mounted"},
		{name: "no database", mark: local.Mark{ID: id, Generation: 2}, refuse: "the database is empty"},
		{name: "of another", in: Installation{ID: id, Generation: 2}, mark: local.Mark{ID: other, Generation: 2}, refuse: other},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := compare(t.Context(), c.in, c.mark, c.mark.ID != "", directoryMarks(t.TempDir()))
			var mixUp *MismatchError
			switch {
			case c.refuse == "" && err != nil:
				t.Error(err)
			case c.refuse != "" && (!errors.As(err, &mixUp) || !strings.Contains(err.Error(), c.refuse)):
				t.Errorf("got %v, want a refusal that says %q", err, c.refuse)
			}
		})
	}
}

func TestANewInstallationIsNotBegunOverBytes(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"blobs/ab/put-1-x", "staging/2026/11/20/x/data"} {
		dir := t.TempDir()
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := identify(t.Context(), sqldbtest.Open(t), directoryMarks(dir)); err == nil {
			t.Errorf("a new installation was begun over %s", path)
		}
	}
}

// Each start raises the generation by one, also after starts that could not write the mark.
func TestGenerations(t *testing.T) {
	t.Parallel()
	db, dir := sqldbtest.Open(t), filepath.Join(t.TempDir(), "blobs")
	first := start(t, db, dir, 1)
	start(t, db, dir, 2)
	inTheWay := filepath.Join(dir, "installation.new", "x")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := identify(t.Context(), db, directoryMarks(dir)); err == nil {
			t.Fatal("the mark was written through a directory")
		}
	}
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	if last := start(t, db, dir, 3); last.ID != first.ID {
		t.Errorf("the installation %s became %s", first.ID, last.ID)
	}
	start(t, db, dir, 4)
}

func start(t *testing.T, db *sqldb.DB, dir string, generation int64) Installation {
	t.Helper()
	in, err := identify(t.Context(), db, directoryMarks(dir))
	if err != nil {
		t.Fatal(err)
	}
	if mark, _, err := local.ReadMark(dir); err != nil || in.Generation != generation || mark != (local.Mark{ID: in.ID, Generation: generation}) {
		t.Fatalf("start %d is %+v, marked %+v, %v", generation, in, mark, err)
	}
	return in
}
