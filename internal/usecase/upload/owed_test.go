package upload_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// deleteForGood deletes a file as a purge does: rows, ledger and content.
func deleteForGood(t *testing.T, s *uploadtest.Site, who drive.Who, path string) {
	t.Helper()
	deleteVersions(t, s, who, path)
	s.CheckLedger(t, who)
}

// Q6: an account that stores and deletes repeatedly has at most twice its total on disk. Unlinking
// frees the space.
func TestDeletedFilesAreOwedUntilUnlinked(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 64*1024)
	put := func() error {
		_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: 60 * 1024}, bytes.NewReader(random(60*1024)))
		return err
	}
	onDisk := func() (n int) {
		if err := s.DB.QueryRow(t.Context(), `SELECT (SELECT COALESCE(SUM(size), 0) FROM blobs) + (SELECT COALESCE(SUM(size), 0) FROM released)`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	refused := 0
	for range 20 {
		if err := put(); err != nil {
			wantKind(t, err, drive.Quota)
			refused++
			continue
		}
		deleteForGood(t, s, who, "/f")
	}
	if n := onDisk(); n > 2*64*1024 || refused != 18 {
		t.Errorf("%d bytes on the disk under a total of %d; %d of 20 were refused", n, 64*1024, refused)
	}
	_, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/g"), Size: 60 * 1024}, nil)
	wantKind(t, err, drive.Quota)
	s.AdvanceAndFire(t, 16*time.Minute)
	if _, err := s.DeleteDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := onDisk(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	s.CheckLedger(t, who)
	if err := put(); err != nil {
		t.Errorf("when all is gone: %v", err)
	}
}

// Q6: a sent file whose content already exists is owed too, because its bytes stay on disk until
// deleted.
func TestDuplicateContentIsOwed(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	data := random(30 * 1024)
	who := s.Account(t, 100*1024)
	put := func(path string) error {
		_, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(data))}, bytes.NewReader(data))
		return err
	}
	if err := put("/first"); err != nil {
		t.Fatal(err)
	}
	for range 4 { // 30 KiB that stay, and four times as much that came and is owed: 150 of 200 KiB
		if err := put("/again"); err != nil {
			t.Fatal(err)
		}
		deleteForGood(t, s, who, "/again")
	}
	if err := put("/again"); err != nil { // 180
		t.Fatal(err)
	}
	wantKind(t, put("/more"), drive.Quota)
	s.CheckLedger(t, who)
}

// Owed bytes count per account, even if one statement settles files of several accounts.
func TestOwedBytesAreCountedPerAccount(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	ann, bob := s.Account(t, 0), s.Account(t, 0)
	for _, who := range []drive.Who{ann, bob} {
		if _, _, err := s.PutFile(t.Context(), who, upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: 1000}, bytes.NewReader(random(1000))); err != nil {
			t.Fatal(err)
		}
		deleteForGood(t, s, who, "/f")
		s.AdvanceAndFire(t, 10*time.Minute)
	}
	if next, err := s.DeleteDue(t.Context()); err != nil || next > time.Minute {
		t.Errorf("what bob has deleted is looked for after %v, %v", next, err)
	}
	var left int
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM owed WHERE size = 1000`).Scan(&left)
	})
	if err != nil || left != 1 {
		t.Errorf("%d accounts owe something, %v", left, err)
	}
	s.CheckLedger(t, ann)
	s.CheckLedger(t, bob)
}
