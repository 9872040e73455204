package upload_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// claimAt begins an upload of data by its digest alone.
func claimAt(t *testing.T, s *uploadtest.Site, who drive.Who, path string, data []byte) upload.View {
	t.Helper()
	v, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, path), Size: drive.ByteSize(len(data)), Digests: blake(data)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func claimAgain(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, d digest.Set) upload.View {
	t.Helper()
	v, err := s.Patch(t.Context(), who, v.ID, upload.Patch{Digests: d})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A client that lacks one byte has no right answer, at any size.
func TestProofNeedsEveryByte(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	data := random(5 * mib)
	owner(t, s, data)
	eve := s.Account(t, 0)
	v := claimAt(t, s, eve, "/f", data)
	known := bytes.Clone(data)
	known[4*mib] ^= 1
	got, err := s.AnswerChallenge(t.Context(), eve, v.ID, digest.ProofHMAC, answer(t, known, *v.Challenge))
	if err != nil || got.State != "active" {
		t.Fatalf("all but a byte: %s, %v", got.State, err)
	}
}

// Content larger than InstantMax is linked only to its owner.
func TestLargeContentOfOthersIsNotLinked(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{PartSize: 16 * drive.MiB, InstantMax: 64 * drive.MiB}})
	data := random(65 * mib)
	ann, eve := owner(t, s, data), s.Account(t, 0)
	v := claimAt(t, s, eve, "/f", data)
	if v.Challenge != nil || v.State != "active" {
		t.Fatalf("%s, %v", v.State, v.Challenge)
	}
	if v = claimAgain(t, s, eve, v, blake(data)); v.Challenge != nil {
		t.Fatalf("claimed again: %v", v.Challenge)
	}
	// A challenge about samples, which an older release has stored, has no valid answer.
	var id, sum string
	if err := s.DB.QueryRow(t.Context(), `SELECT id, digest FROM blobs`).Scan(&id, &sum); err != nil {
		t.Fatal(err)
	}
	asked := fmt.Sprintf(`{"nonce":%q,"ranges":[[0,4096]],"expires_at":"2999-01-01T00:00:00.000Z","blobs":[%q]}`, sum, id)
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE uploads SET challenge = ? WHERE id = ?`, asked, v.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if v, err = s.Get(t.Context(), eve, v.ID); err != nil || v.Challenge == nil {
		t.Fatalf("%v, %v", v.Challenge, err)
	}
	if v, err = s.AnswerChallenge(t.Context(), eve, v.ID, digest.ProofHMAC, answer(t, data, *v.Challenge)); err != nil || v.State != "active" {
		t.Fatalf("%s, %v", v.State, err)
	}
	if v := claimAt(t, s, ann, "/again", data); v.State != "done" {
		t.Errorf("content of one's own: %s", v.State)
	}
}

// A challenge counts when issued: no other claim, upload or digest of the content gets a second one
// that day. A right answer uncounts it.
func TestChallengeIsIssuedOnceADay(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{PartSize: drive.MiB}})
	data := random(3 * mib)
	sums := digest.NewRunning(digest.SHA256)
	_, _ = sums.WriteAt(data, 0)
	ann := s.Account(t, 0)
	v := s.Start(t, ann, "/mine", drive.ByteSize(len(data)))
	s.SendAll(t, ann, v, data)
	if _, _, err := s.Complete(t.Context(), ann, v.ID, upload.Complete{Digests: sums.Sums()}); err != nil {
		t.Fatal(err)
	}
	eve := s.Account(t, 0)
	first := claimAt(t, s, eve, "/a", data)
	if first.Challenge == nil {
		t.Fatal("not asked")
	}
	again := claimAgain(t, s, eve, first, blake(data))
	if again.Challenge == nil || again.Challenge.Nonce != first.Challenge.Nonce {
		t.Errorf("claimed again: %v, want the question that is open", again.Challenge)
	}
	other := claimAt(t, s, eve, "/b", data)
	if other.Challenge != nil {
		t.Error("a second question, for another upload")
	}
	if other = claimAgain(t, s, eve, other, sums.Sums()); other.Challenge != nil {
		t.Error("a second question, for another digest")
	}
	if err := s.Send(t, eve, first, 0, data); err != nil { // so that it stays for days
		t.Fatal(err)
	}
	s.AdvanceAndFire(t, 6*time.Minute)
	if again = claimAgain(t, s, eve, first, blake(data)); again.Challenge != nil {
		t.Error("a second question, after the first has expired")
	}
	s.AdvanceAndFire(t, 24*time.Hour)
	if again = claimAgain(t, s, eve, first, blake(data)); again.Challenge == nil {
		t.Fatal("not asked the next day")
	}
	done, err := s.AnswerChallenge(t.Context(), eve, first.ID, digest.ProofHMAC, answer(t, data, *again.Challenge))
	if err != nil || done.State != "done" {
		t.Fatalf("%s, %v", done.State, err)
	}
	deleteVersions(t, s, eve, "/a")
	if v := claimAt(t, s, eve, "/c", data); v.Challenge == nil {
		t.Error("a right answer did not give the question back")
	}
}
