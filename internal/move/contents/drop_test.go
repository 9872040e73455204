package contents

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/move/migrate"
)

// left is a site whose contents have moved, started with the new settings.
type left struct {
	*site
	old   Side
	dirs  map[string]string
	did   migrate.OldContents
	ready bool
	files []string
}

func leave(t *testing.T, oldDir, newDir string) *left {
	t.Helper()
	s := &left{site: newSite(t), ready: true, dirs: map[string]string{"old": oldDir, "new": newDir}}
	s.old = s.open("old")
	s.pair = NewPair(s.old)
	s.pair.Attach(s.open("new"))
	s.Copier = s.again()
	for i := range uint64(pageSize + 5) {
		s.files = append(s.files, s.put(i))
	}
	s.run()
	s.pair = NewPair(s.open("new"))
	s.state = migrate.State{ID: "m", Phase: migrate.NewOnly, Contents: "new", Switched: true, Dropping: true, OldContents: "old"}
	s.Copier = s.dropper()
	return s
}

func (s *left) open(name string) Side {
	s.t.Helper()
	if err := os.MkdirAll(s.dirs[name], 0o700); err != nil {
		s.t.Fatal(err)
	}
	d, err := local.Open(s.t.Context(), local.Options{Dir: s.dirs[name], Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = d.Close() })
	return Side{Name: name, Store: d.Blobs, Staging: d.Staging, Quarantine: d.Quarantine}
}

// dropper returns the copier of a restarted process.
func (s *left) dropper() *Copier {
	return NewCopier(Options{
		DB: s.db, Pair: s.pair, State: func() migrate.State { return s.state }, Log: slog.New(slog.DiscardHandler),
		Drop: DropOptions{
			Open: func(context.Context, string) (OldPlace, error) {
				return OldPlace{s.old, func() error { return nil }}, nil
			},
			Ready: func(context.Context) (bool, error) { return s.ready, nil },
			Note: func(_ context.Context, change func(*migrate.OldContents)) error {
				change(&s.did)
				s.state.OldContentsDeleted = s.did.Ended
				return nil
			},
		},
	})
}

func (s *left) drop() {
	s.t.Helper()
	if _, err := s.runOnce(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *left) wantLeft(at Side, want ...string) {
	s.t.Helper()
	var found []string
	for _, f := range s.files {
		if _, err := at.Store.Stat(s.t.Context(), f); err == nil {
			found = append(found, f)
		} else if !drive.IsKind(err, drive.NotFound) {
			s.t.Error(err)
		}
	}
	if len(found) != len(want) || strings.Join(found, " ") != strings.Join(want, " ") {
		s.t.Errorf("%d contents are at the %s place, want %d", len(found), at.Name, len(want))
	}
}

// Contents that the new place has are deleted. Contents that it lacks or has differently stay and
// are named until repaired.
func TestDropDeletesContentsThatNewPlaceHas(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for name, dirs := range map[string][2]string{
		"apart":               {filepath.Join(top, "a1"), filepath.Join(top, "a2")},
		"new within old":      {filepath.Join(top, "b"), filepath.Join(top, "b", "blobs", "new")},
		"old within new":      {filepath.Join(top, "c", "blobs", "ab"), filepath.Join(top, "c")},
		"beside each other's": {filepath.Join(top, "d"), filepath.Join(top, "d", "staging")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := leave(t, dirs[0], dirs[1])
			now := s.pair.Side(First)
			missing, torn := s.files[3], s.files[pageSize+1]
			if err := now.Store.Remove(t.Context(), missing); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(pathIn(t, s.dirs["new"], torn), 17); err != nil {
				t.Fatal(err)
			}

			s.ready = false
			s.drop()
			s.wantLeft(s.old, s.files...) // not all instances act by it
			s.ready = true
			s.drop()
			s.wantLeft(s.old, missing, torn)
			if s.did.Removed != int64(len(s.files))-2 || s.did.Kept != 2 || !s.did.Ended || s.did.Worst == "" {
				t.Errorf("did %+v", s.did)
			}

			s.pair.Attach(s.old) // repaired manually
			if err := now.Store.Remove(t.Context(), torn); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{missing, torn} {
				r, _, err := s.find(t.Context(), f)
				if err == nil {
					_, err = s.pair.Sync(t.Context(), r.content, false, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s.pair.Detach()
			s.did, s.state.OldContentsDeleted = migrate.OldContents{}, false
			s.Copier = s.dropper()
			s.drop()
			s.wantLeft(s.old)
			s.wantLeft(*now, s.files...)
		})
	}
}

func pathIn(t *testing.T, dir, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "blobs", "*", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s is at %v: %v", name, found, err)
	}
	return found[0]
}

// Two names of one place: nothing may be deleted.
func TestDropRefusesPlaceInUse(t *testing.T) {
	t.Parallel()
	s := leave(t, t.TempDir(), t.TempDir())
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.dirs["new"], link); err != nil {
		t.Skip("no links here: ", err)
	}
	s.dirs["alias"] = link
	s.old = s.open("alias")
	gates, err := s.GateDrop(t.Context())
	if err != nil || len(gates) != 1 || gates[0].OK || !strings.Contains(gates[0].Detail, "in use") {
		t.Errorf("the gate says %+v, %v", gates, err)
	}
	if _, err := s.runOnce(t.Context()); !errors.Is(err, errCannotOpenOld) {
		t.Errorf("dropped with %v", err)
	}
	s.wantLeft(*s.pair.Side(First), s.files...)
}

// An interrupted pass resumes and also deletes what was released since.
func TestDropResumes(t *testing.T) {
	t.Parallel()
	s := leave(t, t.TempDir(), t.TempDir())
	note, died := s.opt.Drop.Note, errors.New("the process died")
	s.opt.Drop.Note = func(context.Context, func(*migrate.OldContents)) error { return died }
	if _, err := s.runOnce(t.Context()); !errors.Is(err, died) {
		t.Fatal(err)
	}
	s.opt.Drop.Note = note
	s.Copier = s.dropper()
	s.drop()
	s.wantLeft(s.old)
	s.wantLeft(*s.pair.Side(First), s.files...)
	if !s.did.Ended || s.did.Kept != 0 {
		t.Errorf("did %+v", s.did)
	}
}

// A new pace takes effect at once.
func TestPaceChangeTakesEffect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.state.Pace.Bytes = 1
	if err := s.waitPace(t.Context(), 1<<20); err != nil { // the first bytes are free
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.waitPace(ctx, 1<<20); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("a million bytes at one a second: %v", err)
	}
	s.state.Pace.Bytes = 0
	if err := s.waitPace(ctx, 1<<30); err != nil {
		t.Errorf("no bound, and yet %v", err)
	}
}
