package contents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/move/migrate"
)

// broken is a store that refuses to open or to store selected contents.
type broken struct {
	blob.Store
	open, take func(name string) error
}

func (b *broken) Open(ctx context.Context, name string) (blob.Object, error) {
	if err := b.open(name); err != nil {
		return nil, err
	}
	return b.Store.Open(ctx, name)
}

func (b *broken) PutAtomic(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	if err := b.take(name); err != nil {
		return blob.Part{}, err
	}
	return b.Store.PutAtomic(ctx, name, body)
}

func never(string) error { return nil }

// breakable wraps the store of a side in a broken store.
func (s *site) breakable(w SideIndex) *broken {
	b := &broken{s.pair.Side(w).Store, never, never}
	s.pair.update(func(st *pairState) {
		side := *st.sides[w]
		side.Store = b
		st.sides[w] = &side
	})
	return b
}

func (s *site) exec(query string, args ...any) {
	s.t.Helper()
	err := s.db.Write(s.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// struggle runs the copier despite errors and returns the sweep.
func (s *site) struggle() sweep {
	s.t.Helper()
	for range 10 {
		_, _ = s.runOnce(s.t.Context())
	}
	at, err := s.loadSweep(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// A content that cannot be read, or whose row is invalid, closes the gate with the reason. All
// others are copied.
func TestBadContentDoesNotBlockSweep(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *site, b *broken, file string){
		"it cannot be read": func(_ *site, b *broken, file string) {
			b.open = func(name string) error {
				if name == file {
					return fmt.Errorf("read %s: %w", name, syscall.EIO)
				}
				return nil
			}
		},
		"its row has no digest": func(s *site, _ *broken, file string) {
			s.exec("UPDATE blobs SET digest = 'none' WHERE file = ?", file)
		},
	} {
		for _, n := range []int{0, pageSize} { // in the middle, and alone on the last page
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				b := s.breakable(First)
				var files []string
				for i := range uint64(pageSize + 1) {
					files = append(files, s.put(i))
				}
				spoil(s, b, files[n])
				if at := s.struggle(); at.Ended == 0 || at.Bad != 1 || at.Done != pageSize+1 || at.Worst == "" {
					t.Errorf("the sweep is at %+v", at)
				}
				s.wantGate(migrate.DualWrite, false)
				for i, file := range files {
					s.wantAt(Second, file, i != n)
				}

				s.exec("UPDATE blobs SET damaged_at = 1 WHERE file = ?", files[n]) // as the auditor marks it
				if err := s.Verify(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				if at := s.struggle(); at.Ended == 0 || at.Bad != 0 {
					t.Errorf("the sweep is at %+v", at)
				}
				s.wantGate(migrate.DualWrite, true)
			})
		}
	}
}

// A queued content that cannot be copied stays queued and blocks neither the sweep nor other queued
// contents.
func TestQueuedFailureDoesNotBlockSweep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range uint64(pageSize + 50) {
		s.put(i)
	}
	if _, err := s.runOnce(t.Context()); err != nil { // the first page
		t.Fatal(err)
	}
	lost, other := s.put(10_000), s.put(10_001)
	if err := s.pair.Blobs.Remove(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if at := s.struggle(); at.Ended == 0 || at.Done != pageSize+50 || at.Bad != 0 {
		t.Errorf("the sweep is at %+v", at)
	}
	s.wantAt(Second, other, true)
	if n, err := s.Queued(t.Context()); n != 1 || err != nil {
		t.Errorf("%d wait, %v, want the one that is lost", n, err)
	}
	s.wantGate(migrate.NewOnly, false)

	back := blobtest.Bytes(10_000, 1000)
	if _, err := s.pair.Blobs.Put(t.Context(), lost, blobtest.BodyOf(0, len(back), bytes.NewReader(back))); err != nil {
		t.Fatal(err)
	}
	s.Copier = s.again() // without waiting for failPause
	if err := s.Verify(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.wantAt(Second, lost, true)
	s.wantGate(migrate.NewOnly, true)
}

// A new place that fails or is full makes no content bad: the page is repeated until it succeeds.
func TestStoreOutageCountsNoBadContent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		small bool // small objects are stored
	}{
		"away":      {drive.Fail(drive.Unavailable), false},
		"read-only": {syscall.EROFS, false},
		"full":      {drive.Wrap(syscall.ENOSPC, drive.DiskFull), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.breakable(Second)
			known := map[string]bool{s.put(1): true, s.put(2): true}
			b.take = func(name string) error {
				if c.small && !known[name] {
					return nil
				}
				return c.err
			}
			if at := s.struggle(); at.Ended != 0 || at.Bad != 0 || at.Done != 0 {
				t.Errorf("the sweep is at %+v", at)
			}
			b.take = never
			s.run()
			s.wantGate(migrate.DualWrite, true)
		})
	}
}

// A failing content does not stop the copies next to it.
func TestOtherContentsAreCopiedDespiteFailure(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.breakable(First)
	bad, good := s.put(1), s.put(2)
	var all []row
	for _, file := range []string{bad, good} {
		r, found, err := s.find(t.Context(), file)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		all = append(all, r)
	}
	failed := make(chan struct{})
	b.open = func(name string) error {
		if name == bad {
			defer close(failed)
			return syscall.EIO
		}
		<-failed
		return nil
	}
	if got := s.syncPage(t.Context(), all, 0); got[0].err == nil || got[1].err != nil {
		t.Errorf("%v, %v", got[0].err, got[1].err)
	}
	s.wantAt(Second, good, true)
}

// A process that is killed after some contents has moved the save point. The next one resumes
// there, and the sweep ends after any number of kills.
func TestFrequentlyKilledProcessMakesProgress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.breakable(First)
	for i := range uint64(pageSize) {
		s.put(i)
	}
	const perLife = 30 // contents per process life
	progress := func() (int64, bool) {
		t.Helper()
		at, err := s.loadSweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		queued, err := s.queued(t.Context(), "") // on a server, triggers of an earlier test may have queued rows
		if err != nil {
			t.Fatal(err)
		}
		return at.Done - int64(len(queued)), at.Ended != 0
	}
	done, ended := progress()
	for life := 0; !ended; life++ {
		ctx, kill := context.WithCancel(t.Context())
		var opened atomic.Int64
		b.open = func(string) error {
			if opened.Add(1) > perLife {
				kill()
				return ctx.Err()
			}
			return nil
		}
		c := s.again()
		var failed, all error
		for busy := true; (busy || failed != nil) && ctx.Err() == nil; { // as Run does
			busy, failed = c.runOnce(ctx)
			all = errors.Join(all, failed)
		}
		kill()
		before := done
		if done, ended = progress(); done <= before && !ended {
			t.Fatalf("process %d has got from %d to %d: %v", life, before, done, all)
		}
	}
}
