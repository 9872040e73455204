package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
	"example.org/smartdrive/test/process"
)

// putAll stores small files with unique content at the paths.
func putAll(t *testing.T, s *uploadtest.Site, who drive.Who, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := putText(t, s, who, path, "the bytes of "+path); err != nil {
			t.Fatal(err)
		}
	}
}

func putText(t *testing.T, s *uploadtest.Site, who drive.Who, path, text string) error {
	t.Helper()
	p := upload.PutFile{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(text))}
	_, _, err := s.PutFile(t.Context(), who, p, bytes.NewReader([]byte(text)))
	return err
}

func count(t *testing.T, s *uploadtest.Site, query string) (n int) {
	t.Helper()
	if err := s.DB.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wantUnlinked fails the test unless exactly the released files are deleted and nobody owes
// anything.
func wantUnlinked(t *testing.T, s *uploadtest.Site, who drive.Who) {
	t.Helper()
	if left := s.CheckBlobs(t); len(left) > 0 {
		t.Errorf("left at the store: %v", left)
	}
	if n := count(t, s, `SELECT (SELECT COUNT(*) FROM released) + (SELECT COUNT(*) FROM owed_files) + (SELECT COUNT(*) FROM owed)`); n != 0 {
		t.Errorf("%d rows are left of what was released", n)
	}
	s.CheckLedger(t, who)
}

func unlink(t *testing.T, s *uploadtest.Site) {
	t.Helper()
	if _, err := s.DeleteDue(t.Context()); err != nil {
		t.Error(err)
	}
}

// After any crash, failure or lost reply, the next run deletes the rest, keeps used files, and
// releases owed bytes once.
func TestUnlinkCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]uploadtest.Effect{
		"dies before": uploadtest.Die, "dies after": uploadtest.DieAfter, "fails": uploadtest.Fail, "loses the reply": uploadtest.LoseReply,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, fate := siteUnderFate(t)
			who := s.Account(t, 0)
			putAll(t, s, who, "/kept")
			for n := 1; ; n++ {
				putAll(t, s, who, "/a", "/b", "/c")
				if err := putText(t, s, who, "/same", "the bytes of /kept"); err != nil {
					t.Fatal(err)
				}
				for _, path := range []string{"/a", "/b", "/c", "/same"} {
					deleteForGood(t, s, who, path)
				}
				s.Clock.Advance(16 * time.Minute)
				fate.Set(uploadtest.Rule{N: n, Effect: how})
				_, _ = s.DeleteDue(t.Context())
				if !fate.Clear() {
					break
				}
				if n > 100 {
					t.Fatal("it does not come to an end")
				}
				s.Restart(t)
				s.Clock.Advance(11 * time.Minute) // somebody may have claimed them
				unlink(t, s)
				wantUnlinked(t, s, who)
				if got := string(s.Read(t, who, "/kept")); got != "the bytes of /kept" {
					t.Fatalf("at point %d what is in use became %q", n, got)
				}
			}
			wantUnlinked(t, s, who)
		})
	}
}

// Content stored again while its released file is deleted gets a new file.
func TestContentStoredAgainDuringUnlink(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	who := s.Account(t, 0)
	putAll(t, s, who, "/a")
	for _, how := range []uploadtest.Effect{uploadtest.RunBefore, uploadtest.RunAfter} {
		deleteForGood(t, s, who, "/a")
		s.Clock.Advance(16 * time.Minute)
		fate.Set(uploadtest.Rule{Point: "store.Remove", N: 1, Effect: how, Do: func() { putAll(t, s, who, "/a") }})
		unlink(t, s)
		if !fate.Clear() {
			t.Fatal("nothing was deleted")
		}
		wantUnlinked(t, s, who)
		if got := string(s.Read(t, who, "/a")); got != "the bytes of /a" {
			t.Errorf("what came again is %q", got)
		}
	}
}

// Two instances delete concurrently: each file once, and all files.
func TestInstancesDivideUnlinking(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who := s.a.Account(t, 0)
	for i := range 30 {
		path := fmt.Sprintf("/%d", i)
		putAll(t, s.a, who, path)
		deleteForGood(t, s.a, who, path)
	}
	s.Clock.Advance(16 * time.Minute)
	var all sync.WaitGroup
	for _, on := range []*uploadtest.Site{s.a, s.b, s.a, s.b} {
		all.Go(func() { unlink(t, on) })
	}
	all.Wait()
	wantUnlinked(t, s.b, who)
	if n := s.a.Counters.Files.Load() + s.b.Counters.Files.Load(); n != 30 {
		t.Errorf("%d deletions of 30 files", n)
	}
}

// undeletableStore is a store that cannot delete one file.
type undeletableStore struct {
	blob.Store
	name *string
}

func (s undeletableStore) Remove(ctx context.Context, name string) error {
	if name == *s.name {
		return errors.New("access denied")
	}
	return s.Store.Remove(ctx, name)
}

func (s undeletableStore) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	return blob.RemoveEach(ctx, names, s.Remove)
}

func (s undeletableStore) Reclaim(ctx context.Context, names []string) ([]string, error) {
	return s.RemoveAll(ctx, names)
}

// A file that cannot be deleted blocks no other, stays owed, and is deleted once possible.
func TestUndeletableFileDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	var bad string
	s := uploadtest.New(t, uploadtest.Options{Store: func(b blob.Store) blob.Store { return undeletableStore{b, &bad} }})
	who := s.Account(t, 0)
	putAll(t, s, who, "/a")
	if err := s.DB.QueryRow(t.Context(), `SELECT file FROM blobs`).Scan(&bad); err != nil {
		t.Fatal(err)
	}
	deleteForGood(t, s, who, "/a")
	for i := range 6 { // five overruns were the end of it once
		path := fmt.Sprintf("/%d", i)
		putAll(t, s, who, path)
		deleteForGood(t, s, who, path)
		s.Clock.Advance(time.Hour)
		unlink(t, s)
		if n := count(t, s, `SELECT COUNT(*) FROM released`); n != 1 {
			t.Errorf("%d files are left, not the one that cannot be deleted", n)
		}
	}
	if n := count(t, s, `SELECT SUM(size) FROM owed`); n != len("the bytes of /a") || s.Counters.Failed.Load() != 6 {
		t.Errorf("%d bytes are owed, %d deletions failed", n, s.Counters.Failed.Load())
	}
	bad = ""
	s.Clock.Advance(time.Hour)
	unlink(t, s)
	wantUnlinked(t, s, who)
}

// frugalStore keeps contents of a pack until enough of them can be deleted together.
type frugalStore struct {
	blob.Store
	least int
}

func (s frugalStore) Caps() blob.StoreCaps {
	caps := s.Store.Caps()
	caps.DefersReclaim = true
	return caps
}

func (s frugalStore) Reclaim(ctx context.Context, names []string) (gone []string, err error) {
	packs := map[string][]string{}
	for _, name := range names {
		at, _ := blob.SlotOf(name)
		packs[at.Pack] = append(packs[at.Pack], name)
	}
	for _, some := range packs {
		if len(some) < s.least {
			continue
		}
		went, err := s.RemoveAll(ctx, some)
		if gone = append(gone, went...); err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// Files that the store defers are owed by nobody and not requested again until more of their pack
// is released.
func TestDeferredFilesAreUnlinkedLater(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Store: func(b blob.Store) blob.Store { return frugalStore{b, 3} }})
	who := s.Account(t, 0)
	putAll(t, s, who, "/a", "/b", "/c", "/d", "/e")
	var name string
	if err := s.DB.QueryRow(t.Context(), `SELECT MIN(file) FROM blobs`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, ok := blob.SlotOf(name); !ok {
		t.Skip("there are no packs on this disk")
	}
	for i, path := range []string{"/a", "/b"} {
		deleteForGood(t, s, who, path)
		s.Clock.Advance(16 * time.Minute)
		unlink(t, s)
		if n := count(t, s, `SELECT COUNT(*) FROM released`); n != i+1 {
			t.Errorf("%d contents are left after %d were deleted", n, i+1)
		}
		if n := count(t, s, `SELECT (SELECT COUNT(*) FROM owed_files) + (SELECT COUNT(*) FROM owed)`); n != 0 {
			t.Errorf("%d of them are owed", n)
		}
	}
	if n := s.Counters.Deferred.Load(); n != 3 { // the first one twice: with the second one, it was asked for again
		t.Errorf("%d were deferred", n)
	}
	s.Clock.Advance(20 * 24 * time.Hour)
	unlink(t, s)
	if n := s.Counters.Deferred.Load(); n != 3 {
		t.Errorf("it asked again without a reason: %d were deferred", n)
	}
	deleteForGood(t, s, who, "/c")
	s.Clock.Advance(16 * time.Minute)
	unlink(t, s)
	if n := count(t, s, `SELECT COUNT(*) FROM released`); n != 0 || s.Counters.Files.Load() != 3 {
		t.Errorf("%d contents are left, %d went", n, s.Counters.Files.Load())
	}
}

// Run deletes the files that are due at a start, and ends when its context ends.
func TestReleasedFilesAreUnlinkedInBackground(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 0)
	putAll(t, s, who, "/a", "/b")
	deleteForGood(t, s, who, "/a")
	s.Clock.Advance(16 * time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	process.Eventually(t, time.Minute, "the released file is deleted", func() error {
		if n := count(t, s, `SELECT COUNT(*) FROM released`); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wantUnlinked(t, s, who)
}
