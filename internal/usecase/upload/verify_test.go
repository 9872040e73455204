package upload_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
	"example.org/smartdrive/test/process"
)

// large is more than is read while the client waits for the reply to its proof.
const large = 65 * mib

// answered lets a second account claim a large content and answer its challenge.
func answered(t *testing.T, wrong bool) (s *uploadtest.Site, data []byte, ann, bob drive.Who, v upload.View) {
	t.Helper()
	s = uploadtest.New(t, uploadtest.Options{Upload: upload.Options{PartSize: 16 * drive.MiB}})
	data = random(large)
	ann = owner(t, s, data)
	bob = s.Account(t, 0)
	if v = claimAt(t, s, bob, "/f", data); v.Challenge == nil {
		t.Fatal("not asked")
	}
	right := answer(t, data, *v.Challenge)
	if wrong {
		right[0] ^= 1
	}
	got, err := s.AnswerChallenge(t.Context(), bob, v.ID, digest.ProofHMAC, right)
	if err != nil || got.State != upload.Verifying || got.Challenge != nil {
		t.Fatalf("%s with challenge %v, %v", got.State, got.Challenge, err)
	}
	again, err := s.AnswerChallenge(t.Context(), bob, v.ID, digest.ProofHMAC, right) // the reply was lost
	if err != nil || again.State == upload.Verifying && again.Challenge != nil {
		t.Fatalf("the second time: %s, %v", again.State, err)
	}
	return s, data, ann, bob, v
}

// verified waits until an upload is no longer verifying.
func verified(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) (now upload.View) {
	t.Helper()
	process.Eventually(t, time.Minute, "the answer is checked", func() (err error) {
		if now, err = s.Get(t.Context(), who, v.ID); err == nil && now.State == upload.Verifying {
			err = fmt.Errorf("still %s", now.State)
		}
		return err
	})
	return now
}

// A second user of a large file need not send it; parts sent meanwhile do no harm.
func TestLargeContentIsLinkedAfterProof(t *testing.T) {
	t.Parallel()
	s, data, _, bob, v := answered(t, false)
	if err := s.Send(t, bob, v, 0, data[:16*mib]); err != nil && !drive.IsKind(err, drive.WrongState) {
		t.Error(err)
	}
	if v = verified(t, s, bob, v); v.State != "done" || v.Node == nil {
		t.Fatalf("%s, %v", v.State, v.Node)
	}
	s.CheckLedger(t, bob)
	if used, _ := s.Used(t, bob); used != int64(large) {
		t.Errorf("%d bytes are charged", used)
	}
	deleteVersions(t, s, bob, "/f")
	if v := claimAt(t, s, bob, "/g", data); v.Challenge == nil {
		t.Error("a right answer did not give the question back")
	}
}

// A wrong answer uses up the day's challenge, and the upload continues.
func TestWrongAnswerAboutLargeContent(t *testing.T) {
	t.Parallel()
	s, data, _, eve, v := answered(t, true)
	if v = verified(t, s, eve, v); v.State != "active" || v.Challenge != nil {
		t.Fatalf("%s, %v", v.State, v.Challenge)
	}
	if v = claimAgain(t, s, eve, v, blake(data)); v.Challenge != nil {
		t.Error("asked again")
	}
	s.SendAll(t, eve, v, data)
	complete(t, s, eve, v)
	s.CheckLedger(t, eve)
}

// A process that ends while it verifies leaves an upload that takes parts.
func TestShutdownDuringVerification(t *testing.T) {
	t.Parallel()
	s, data, _, bob, v := answered(t, false)
	s.Restart(t)
	now, err := s.Get(t.Context(), bob, v.ID)
	if err != nil || now.State == upload.Verifying {
		t.Fatalf("%s, %v", now.State, err)
	}
	if now.State != "done" { // else the check had ended before
		s.SendAll(t, bob, now, data)
		complete(t, s, bob, now)
	}
	s.CheckLedger(t, bob)
}

// The client cancels, or the last owner deletes the content, while the server verifies.
func TestUploadEndsDuringVerification(t *testing.T) {
	t.Parallel()
	s, _, _, bob, v := answered(t, false)
	if err := s.Cancel(t.Context(), bob, v.ID); err != nil && !drive.IsKind(err, drive.WrongState) {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), bob, v.ID); err != nil && !drive.IsKind(err, drive.Gone) {
		t.Error(err)
	}
	s.CheckLedger(t, bob)

	s, data, ann, bob, v := answered(t, false)
	deleteVersions(t, s, ann, "/mine")
	if v = verified(t, s, bob, v); v.State == "active" {
		s.SendAll(t, bob, v, data)
		complete(t, s, bob, v)
	}
	s.CheckLedger(t, bob)
}

// The size of challenged contents per user and day is bounded unless answered rightly.
func TestWrongAnswersHaveABudget(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	first, second := random(3*mib), random(4*mib)
	owner(t, s, first)
	eve := s.Account(t, 0)
	if v := claimAt(t, s, eve, "/a", first); v.Challenge == nil {
		t.Fatal("not asked")
	}
	ann := s.Account(t, 0)
	v := s.Start(t, ann, "/mine", drive.ByteSize(len(second)))
	s.SendAll(t, ann, v, second)
	complete(t, s, ann, v)
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE refusals SET bytes = ?`, 64*drive.GiB-3*drive.MiB) // as if it had been larger
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := claimAt(t, s, eve, "/b", second); v.Challenge != nil {
		t.Error("asked beyond the budget")
	}
	s.AdvanceAndFire(t, 24*time.Hour)
	if v := claimAt(t, s, eve, "/c", second); v.Challenge == nil {
		t.Error("not asked the next day")
	}
}
