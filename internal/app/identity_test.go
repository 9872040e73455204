package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// shelf is a place for a mark in memory.
type shelf struct {
	mu       sync.Mutex
	mark     blob.Mark
	found    bool
	occupied bool
	before   func() // is called before a mark is read
}

func (s *shelf) String() string { return "the shelf" }

func (s *shelf) ReadMark(context.Context) (blob.Mark, bool, error) {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark, s.found, nil
}

func (s *shelf) WriteMark(_ context.Context, m blob.Mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark, s.found = m, true
	return nil
}

func (s *shelf) Occupied(context.Context) (bool, error) { return s.occupied, nil }

// Concurrent first starts create one installation, and each process gets its own instance number.
func TestStartsAtOnceMakeOneInstallation(t *testing.T) {
	t.Parallel()
	db, at := sqldbtest.Open(t), new(shelf)
	const starts = 12
	all := make([]Installation, starts)
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			var err error
			if all[i], err = identifyShared(t.Context(), db, at); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	seen := map[int64]bool{}
	for _, in := range all {
		if in.ID == "" || in.ID != all[0].ID || in.Generation < 1 || seen[in.Generation] {
			t.Errorf("%+v beside %+v", in, all)
		}
		seen[in.Generation] = true
	}
	a := &platform{db: db, marks: at, Installation: all[0]}
	if err := a.refreshMark(t.Context()); err != nil || at.mark != (blob.Mark{ID: all[0].ID, Generation: starts}) {
		t.Errorf("the mark is %+v, %v", at.mark, err)
	}
}

func TestMarksAreComparedInCluster(t *testing.T) {
	t.Parallel()
	const id, other = "01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000002"
	for _, c := range []struct {
		name   string
		rows   map[string]string
		at     *shelf
		refuse string // "" when they do
	}{
		{name: "both are new"},
		{name: "as others left them", rows: facts(id, "5", "1"), at: &shelf{found: true, mark: blob.Mark{ID: id, Generation: 5}}},
		{name: "others start just now", rows: facts(id, "9", "1"), at: &shelf{found: true, mark: blob.Mark{ID: id, Generation: 5}}},
		{name: "no start has come as far as the mark", rows: facts(id, "3", "")},
		{name: "an older database", rows: facts(id, "4", "1"), at: &shelf{found: true, mark: blob.Mark{ID: id, Generation: 5}}, refuse: "older copy"},
		{name: "another bucket", rows: facts(id, "2", "1"), refuse: "wrong bucket"},
		{name: "no database", at: &shelf{found: true, mark: blob.Mark{ID: id, Generation: 2}}, refuse: "the database is empty"},
		{name: "no database, and bytes without a mark", at: &shelf{occupied: true}, refuse: "without a mark"},
		{name: "of another", rows: facts(id, "2", "1"), at: &shelf{found: true, mark: blob.Mark{ID: other, Generation: 2}}, refuse: other},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := sqldbtest.Open(t)
			putMeta(t, db, c.rows)
			before, _ := readInstallation(t.Context(), db)
			if c.at == nil {
				c.at = new(shelf)
			}
			in, err := identifyShared(t.Context(), db, c.at)
			var mixUp *MismatchError
			switch after, _ := readInstallation(t.Context(), db); {
			case c.refuse == "" && (err != nil || c.at.mark.ID != in.ID || c.at.mark.Generation < in.Generation):
				t.Errorf("%+v, marked %+v, %v", in, c.at.mark, err)
			case c.refuse != "" && (!errors.As(err, &mixUp) || !strings.Contains(err.Error(), c.refuse)):
				t.Errorf("got %v, want a refusal that says %q", err, c.refuse)
			case c.refuse != "" && after != before:
				t.Errorf("refused, and yet %+v became %+v", before, after)
			}
		})
	}
}

func facts(id, generation, marked string) map[string]string {
	rows := map[string]string{metaInstallation: id, metaGeneration: generation}
	if marked != "" {
		rows[metaMarked] = marked
	}
	return rows
}

func putMeta(t *testing.T, db *sqldb.DB, rows map[string]string) {
	t.Helper()
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for name, value := range rows {
			if err := meta.Set(ctx, tx, name, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Another instance makes the installation between our look at the database and our look at the
// mark.
func TestInstallationCreatedMeanwhileIsAccepted(t *testing.T) {
	t.Parallel()
	db, at := sqldbtest.Open(t), new(shelf)
	var first Installation
	once := sync.Once{}
	at.before = func() {
		once.Do(func() {
			var err error
			if first, err = identifyShared(t.Context(), db, &shelf{}); err != nil {
				t.Error(err)
			}
			if err := at.WriteMark(t.Context(), blob.Mark{ID: first.ID, Generation: first.Generation}); err != nil {
				t.Error(err)
			}
		})
	}
	in, err := identifyShared(t.Context(), db, at)
	if err != nil || in.ID != first.ID || in.Generation != first.Generation+1 {
		t.Errorf("%+v beside %+v, %v", in, first, err)
	}
}
