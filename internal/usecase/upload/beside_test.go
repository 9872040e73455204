package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Cancel does not wait for a stalled client.
func TestCancelEndsAStalledPart(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 0)
	v := s.Start(t, who, "/f", 2*drive.MiB)
	stalled, client := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- s.Put(t.Context(), who, v.ID, upload.PutPart{N: 0, Size: 2 * drive.MiB}, stalled) }()
	if _, err := client.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Cancel(t.Context(), who, v.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err == nil {
		t.Error("the part was accepted")
	}
	checkClean(t, s, who)
}

// Parts sent while a parked upload resumes see the received parts: other bytes are refused.
func TestPartsDuringResume(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t)})
	who, data := s.Account(t, 0), random(5*mib)
	other := bytes.Clone(data)
	other[5] ^= 1
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s, who, v, 0, data)
	for range 40 {
		s.Clock.Advance(11 * time.Minute)
		s.Fire(t)
		wantState(t, s, v, "parked")
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				err := s.Send(t, who, v, 0, other)
				if !drive.IsKind(err, drive.PartDiffers, drive.InProgress) {
					t.Errorf("other bytes for a part that is there: %v", err)
				}
			})
		}
		all.Wait()
	}
	s.SendAll(t, who, v, data)
	complete(t, s, who, v)
	checkClean(t, s, who)
}

// A part accepted while the journal is read again is not taken for missing.
func TestPartAcceptedDuringReload(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	who, data := s.Account(t, 0), random(5*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	slow, client := io.Pipe()
	arrived := make(chan error, 1)
	go func() { arrived <- s.Put(t.Context(), who, v.ID, upload.PutPart{N: 0, Size: 2 * drive.MiB}, slow) }()
	if _, err := client.Write(data[:100]); err != nil {
		t.Fatal(err)
	}
	fate.Set(uploadtest.Rule{Point: "staging.Write", N: 1, Effect: uploadtest.LoseReply}) // makes the row forgotten
	if err := s.Send(t, who, v, 1, data); err == nil {
		t.Fatal("the lost reply was not reported")
	}
	fate.Set(uploadtest.Rule{Point: "staging.Load", N: 1, Effect: uploadtest.RunAfter, Do: func() {
		_, err := client.Write(data[100 : 2*mib])
		if err := errors.Join(err, client.Close(), <-arrived); err != nil {
			t.Error(err)
		}
	}})
	send(t, s, who, v, 2, data)
	if !fate.Clear() {
		t.Fatal("the journal was not read")
	}
	got, err := s.Get(t.Context(), who, v.ID)
	if err != nil || fmt.Sprint(got.Received) != "[[0 2]]" {
		t.Errorf("received %v, %v", got.Received, err)
	}
	complete(t, s, who, v)
	checkClean(t, s, who)
}

// After a transaction of unknown outcome a whole file exists or not, and no row loses its bytes.
func TestWholeFileOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, how := range []uploadtest.Effect{uploadtest.Fail, uploadtest.LoseReply, uploadtest.Die, uploadtest.DieAfter} {
		for n := 1; n <= 12; n += 12 / sqldbtest.Repetitions(12) {
			s, fate := siteUnderFate(t)
			who, data := s.Account(t, 0), random(1000)
			p := upload.PutFile{Path: uploadtest.Path(t, "/f"), Size: 1000}
			fate.Set(uploadtest.Rule{Point: "", N: n, Effect: how})
			_, _, err := s.PutFile(t.Context(), who, p, bytes.NewReader(data))
			fate.Clear()
			s.Restart(t)
			s.CheckLedger(t, who)
			s.CheckBlobs(t)
			there := s.Balance(t, who) == "1000/0/0"
			if err == nil && !there {
				t.Errorf("call %d (%d): acknowledged and not there", n, how)
			}
			if there && !bytes.Equal(s.Read(t, who, "/f"), data) {
				t.Errorf("call %d (%d): other bytes", n, how)
			}
			if _, _, err := s.PutFile(t.Context(), who, p, bytes.NewReader(data)); err != nil {
				t.Errorf("call %d (%d): again: %v", n, how, err)
			}
			s.CheckLedger(t, who)
			s.CheckBlobs(t)
		}
	}
}

// If the folder is gone at completion the parts stay, and the upload can get another folder.
func TestParentGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	v, err := s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/a/b/f"), Size: drive.ByteSize(len(data)), Parents: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SendAll(t, who, v, data)
	folder, err := s.Tree.Resolve(t.Context(), s.DB, who.Account, uploadtest.Path(t, "/a"))
	if err != nil {
		t.Fatal(err)
	}
	err = s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE nodes SET trashed_at = 1, slot = CONCAT('/', id) WHERE id = ?`, folder.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Complete(t.Context(), who, v.ID, upload.Complete{})
	wantKind(t, err, drive.ParentGone)
	root, err := s.Tree.Resolve(t.Context(), s.DB, who.Account, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Parent: root.ID}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("the file has other bytes")
	}
	checkClean(t, s, who)
}

// Uploads of others do not exist.
func TestUploadsOfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	ann, eve, data := s.Account(t, 0), s.Account(t, 0), random(3*mib)
	v := s.Start(t, ann, "/f", drive.ByteSize(len(data)))
	for _, parked := range []bool{false, true} {
		if parked {
			s.AdvanceAndFire(t, time.Minute)
		}
		_, getErr := s.Get(t.Context(), eve, v.ID)
		_, listErr := s.ListParts(t.Context(), eve, v.ID)
		_, _, completeErr := s.Complete(t.Context(), eve, v.ID, upload.Complete{})
		_, patchErr := s.Patch(t.Context(), eve, v.ID, upload.Patch{Name: "g"})
		_, proveErr := s.AnswerChallenge(t.Context(), eve, v.ID, digest.ProofHMAC, nil)
		for _, err := range []error{
			getErr, listErr, completeErr, patchErr, proveErr, s.Send(t, eve, v, 0, data), s.DeletePart(t.Context(), eve, v.ID, 0),
			s.Cancel(t.Context(), eve, v.ID),
		} {
			wantKind(t, err, drive.NotFound)
		}
	}
	wantState(t, s, v, "parked")
}

// A state change commits while a concurrent part invalidates the cache; the parts are then read
// again.
func TestStateChangeAfterInvalidation(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	who, data := s.Account(t, 0), random(5*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s, who, v, 0, data)
	beside := make(chan error, 1)
	fate.Set(uploadtest.Rule{Point: "read", N: 1, Effect: uploadtest.RunBefore, Do: func() {
		if _, err := s.Local.Staging.Fence(t.Context(), v.Row().Ref(), v.Row().Gen); err != nil {
			t.Error(err)
		}
		go func() { beside <- s.Send(t, who, v, 1, data) }()
		for !s.Forgotten(v.ID) {
			runtime.Gosched()
		}
	}})
	if _, err := s.Patch(t.Context(), who, v.ID, upload.Patch{Name: "g"}); err != nil {
		t.Fatal(err)
	}
	if err := <-beside; err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(data)
	other[5] ^= 1
	wantKind(t, s.Send(t, who, v, 0, other), drive.PartDiffers)
	send(t, s, who, v, 2, data)
	complete(t, s, who, v)
	checkClean(t, s, who)
}

// Reset reclaims open uploads of one account or all and returns their number; sealing and done ones
// stay.
func TestResetReclaimsOpenUploads(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	ann, bob, data := s.Account(t, 0), s.Account(t, 0), random(3*mib)
	start := func(who drive.Who, path string) upload.View {
		v := s.Start(t, who, path, drive.ByteSize(len(data)))
		s.SendAll(t, who, v, data)
		return v
	}
	done, sealing, active, others := start(ann, "/done"), start(ann, "/sealing"), start(ann, "/active"), start(bob, "/f")
	complete(t, s, ann, done)
	fate.Set(uploadtest.Rule{Point: "staging.Seal", N: 1, Effect: uploadtest.Fail})
	if _, _, err := s.Complete(t.Context(), ann, sealing.ID, upload.Complete{}); err == nil {
		t.Fatal("the fault was not reported")
	}
	fate.Clear()
	for _, c := range []struct {
		account drive.AccountID
		want    int
	}{{ann.Account, 1}, {ann.Account, 0}, {drive.AccountID{}, 1}} {
		if n, err := s.ReclaimAll(t.Context(), c.account); err != nil || n != c.want {
			t.Errorf("reset %d, %v; want %d", n, err, c.want)
		}
	}
	wantState(t, s, done, "done")
	wantState(t, s, sealing, "sealing")
	_, err := s.Get(t.Context(), ann, active.ID)
	if e := wantKind(t, err, drive.Gone); e.Args["reason"] != upload.ReasonReset {
		t.Errorf("reason %v", e.Args["reason"])
	}
	wantState(t, s, others, "gone")
	complete(t, s, ann, sealing)
	checkClean(t, s, ann, bob)
}
