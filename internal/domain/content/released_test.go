package content_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

const grace, hold = 15 * time.Minute, 10 * time.Minute

// claim claims up to limit files.
func (s *store) claim(t *testing.T, limit int) (files, used []string) {
	t.Helper()
	err := s.do(func(ctx context.Context, tx *sqldb.Tx) error {
		taken, kept, err := s.ClaimReleased(ctx, tx, content.Claim{Grace: grace, Hold: hold, Limit: limit})
		files, used = nil, kept
		for _, r := range taken {
			files = append(files, r.File)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files, used
}

func (s *store) forget(t *testing.T, files ...string) {
	t.Helper()
	if err := s.do(func(ctx context.Context, tx *sqldb.Tx) error { return s.DeleteReleased(ctx, tx, files) }); err != nil {
		t.Fatal(err)
	}
}

// releaseEach releases files, one minute apart.
func (s *store) releaseEach(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := s.do(func(ctx context.Context, tx *sqldb.Tx) error { return s.ReleaseFile(ctx, tx, file, 5) }); err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(time.Minute)
	}
}

func (s *store) wantNext(t *testing.T, want time.Duration) {
	t.Helper()
	if in, ok, err := s.NextReleased(t.Context(), s.db, grace); err != nil || !ok || in != want {
		t.Errorf("the next one is due in %v, %v, %v; want %v", in, ok, err, want)
	}
}

// TestReleasedFileIsClaimedOnce: no claim gets a file in its grace period or held by another claim;
// the claim of a dead process ends with its hold.
func TestReleasedFileIsClaimedOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, ok, err := s.NextReleased(t.Context(), s.db, grace); ok || err != nil {
		t.Errorf("of none the next one is due: %v, %v", ok, err)
	}
	s.releaseEach(t, "a", "b", "c")
	s.wantNext(t, grace-3*time.Minute)
	s.now = s.now.Add(grace - 2*time.Minute) // c is not due
	mine, _ := s.claim(t, 1)
	others, _ := s.claim(t, 10)
	if !slices.Equal(mine, []string{"a"}) || !slices.Equal(others, []string{"b"}) {
		t.Errorf("%v and %v were claimed", mine, others)
	}
	s.wantNext(t, time.Minute)
	s.forget(t, "b")
	s.now = s.now.Add(hold - time.Millisecond)
	if again, _ := s.claim(t, 10); !slices.Equal(again, []string{"c"}) {
		t.Errorf("%v were claimed while somebody had a", again)
	}
	s.now = s.now.Add(time.Millisecond)
	if again, _ := s.claim(t, 10); !slices.Equal(again, []string{"a"}) {
		t.Errorf("%v were claimed when its holder had died", again)
	}
	s.forget(t, "a", "c")
	if got := s.released(t); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

// TestTogetherClaimsFilesOfSamePack: Together adds files of the same packs that are due or
// deferred, but not those in their grace period or held by another claim.
func TestTogetherClaimsFilesOfSamePack(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	pack := blob.PutPrefix + "1-" + drive.NewID[drive.BlobID]().String()
	name := func(first int64) string { return blob.Slot{Pack: pack, First: first, Blocks: 1}.Name() }
	held, deferred, due, fresh := name(2), name(3), name(4), name(5)
	s.releaseEach(t, held)
	s.now = s.now.Add(grace)
	if files, _ := s.claim(t, 1); !slices.Equal(files, []string{held}) {
		t.Fatalf("claimed %v", files)
	}
	s.now = s.now.Add(-grace)
	s.releaseEach(t, deferred, due)
	if err := s.do(func(ctx context.Context, tx *sqldb.Tx) error { return s.Defer(ctx, tx, []string{deferred}, grace) }); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(grace)
	s.releaseEach(t, fresh)
	var files []string
	err := s.do(func(ctx context.Context, tx *sqldb.Tx) error {
		taken, _, err := s.ClaimReleased(ctx, tx, content.Claim{Grace: grace, Hold: hold, Limit: 10, SamePacks: true})
		for _, r := range taken {
			files = append(files, r.File)
		}
		return err
	})
	slices.Sort(files)
	if want := []string{deferred, due}; err != nil || !slices.Equal(files, want) {
		t.Errorf("claimed %v, %v; want %v", files, err, want)
	}
}

// TestFileInUseIsNotClaimed (B2): a file that a blob refers to is never claimed for deletion.
func TestFileInUseIsNotClaimed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.attach(t, fresh(1, "used"))
	s.releaseEach(t, "used", "loose")
	s.now = s.now.Add(grace)
	if files, used := s.claim(t, 10); !slices.Equal(files, []string{"loose"}) || !slices.Equal(used, []string{"used"}) {
		t.Errorf("claimed %v, in use %v", files, used)
	}
	if got := s.released(t); !slices.Equal(got, []string{"loose"}) {
		t.Errorf("released %v", got)
	}
}

// TestForgetClearsDebtOnce (Q6): a repeated DeleteReleased does not reduce the debt again.
func TestForgetClearsDebtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	account := drive.NewID[drive.AccountID]()
	for i := byte(1); i <= 3; i++ {
		id, _ := s.attach(t, fresh(i, string('a'+rune(i))))
		if err := s.do(func(ctx context.Context, tx *sqldb.Tx) error { return s.Release(ctx, tx, account, id) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"200", "200", "100"} {
		s.forget(t, "b")
		if want == "100" {
			s.forget(t, "b", "c")
		}
		var owed string
		if err := s.db.QueryRow(t.Context(), `SELECT size FROM owed WHERE account_id = ?`, account).Scan(&owed); err != nil || owed != want {
			t.Errorf("owed %s, %v; want %s", owed, err, want)
		}
	}
}
