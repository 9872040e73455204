package upload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// siteUnderFate returns a site and the Fate that can make its calls fail.
func siteUnderFate(t *testing.T) (*uploadtest.Site, *uploadtest.Faults) {
	t.Helper()
	f := &uploadtest.Faults{}
	return uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t), Faults: f}), f
}

// checkClean fails the test unless the ledgers add up and no files are left behind.
func checkClean(t *testing.T, s *uploadtest.Site, who ...drive.Who) {
	t.Helper()
	s.Settle()
	for _, w := range who {
		s.CheckLedger(t, w)
	}
	if left := append(s.Staged(t), s.CheckBlobs(t)...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func send(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, n int, data []byte) {
	t.Helper()
	if err := s.Send(t, who, v, n, data); err != nil {
		t.Fatalf("send part %d: %v", n, err)
	}
}

func complete(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
	t.Helper()
	if done, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err != nil || done.State != "done" {
		t.Fatalf("complete: %s, %v", done.State, err)
	}
}

func wantState(t *testing.T, s *uploadtest.Site, v upload.View, want string) {
	t.Helper()
	if got, _ := s.State(t, v.ID); got != want {
		t.Fatalf("the upload is %s, want %s", got, want)
	}
}

// DESIGN 3: "A crash between [fence and transaction] is finished by redelivery or by the next part.
// A part that meets a closed gen resumes the upload first": the client notices nothing.
func TestPartAfterFailedPark(t *testing.T) {
	t.Parallel()
	for _, how := range []uploadtest.Effect{uploadtest.Fail, uploadtest.Die} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			t.Parallel()
			s, fate := siteUnderFate(t)
			who, data := s.Account(t, 0), random(5*mib)
			v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
			send(t, s, who, v, 0, data)
			fate.Set(uploadtest.Rule{Point: "tx", N: 1, Effect: how})
			s.Clock.Advance(31 * time.Second)
			s.Fire(t)
			if !fate.Clear() {
				t.Fatal("nothing failed")
			}
			if how == uploadtest.Die {
				s.Restart(t)
			}
			wantState(t, s, v, "active")
			send(t, s, who, v, 1, data)
			if err := s.DeletePart(t.Context(), who, v.ID, 0); err != nil {
				t.Fatal(err)
			}
			send(t, s, who, v, 0, data)
			send(t, s, who, v, 2, data)
			complete(t, s, who, v)
			checkClean(t, s, who)
		})
	}
}

// If no part arrives, an interrupted park is completed when its timer is redelivered.
func TestParkIsFinishedByRedelivery(t *testing.T) {
	t.Parallel()
	for _, how := range []uploadtest.Effect{uploadtest.Fail, uploadtest.LoseReply} {
		for _, point := range []string{"staging.Fence", "tx.begin", "tx.exec", "tx.commit"} {
			s, fate := siteUnderFate(t)
			who, data := s.Account(t, 0), random(3*mib)
			v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
			send(t, s, who, v, 0, data)
			fate.Set(uploadtest.Rule{Point: point, N: 1, Effect: how})
			s.Clock.Advance(31 * time.Second)
			s.Fire(t)
			if !fate.Clear() {
				t.Fatalf("%s: nothing failed", point)
			}
			s.AdvanceAndFire(t, 20*time.Second)
			if got := s.Balance(t, who); got != fmt.Sprintf("0/%d/0", 2*mib) {
				t.Errorf("%s: the ledger is %s", point, got)
			}
			s.AdvanceAndFire(t, 8*24*time.Hour) // and it still has a timer that ends it
			wantState(t, s, v, "gone")
			checkClean(t, s, who)
		}
	}
}

// A failed deletion may have happened, so the same bytes must not be acknowledged from the cache.
func TestPartOfUnknownDeletionIsNotConfirmed(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("I/O error"), drive.Fail(drive.Unavailable), drive.Fail(drive.DiskFull)} {
		s, fate := siteUnderFate(t)
		who, data := s.Account(t, 0), random(3*mib)
		v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
		send(t, s, who, v, 0, data)
		send(t, s, who, v, 1, data)
		fate.Set(uploadtest.Rule{Point: "staging.Drop", N: 1, Effect: uploadtest.LoseReply, Err: err})
		if err := s.DeletePart(t.Context(), who, v.ID, 0); err == nil {
			t.Fatal("the lost reply was not reported")
		}
		fate.Clear()
		send(t, s, who, v, 0, data)
		complete(t, s, who, v)
		if !bytes.Equal(s.Read(t, who, "/f"), data) {
			t.Error("the file has other bytes")
		}
		checkClean(t, s, who)
	}
}

// Only the staging may report lost bytes; a missing row elsewhere must not end the upload.
func TestMissingRowDeletesNothing(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 6; n++ {
		s, fate := siteUnderFate(t)
		who, data := s.Account(t, 0), random(3*mib)
		v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
		s.SendAll(t, who, v, data)
		fate.Set(uploadtest.Rule{Point: "tx.query", N: n, Effect: uploadtest.Fail, Err: drive.Fail(drive.NotFound)})
		_, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
		came := fate.Clear()
		if state, _ := s.State(t, v.ID); err != nil && state != "active" && state != "sealing" {
			t.Fatalf("query %d: the upload is %s after %v", n, state, err)
		}
		complete(t, s, who, v)
		checkClean(t, s, who)
		if !came && n == 1 {
			t.Error("nothing failed")
		}
	}
}

// A seal that stops undecided is redone by its timer until it succeeds, without any request.
func TestSealIsRedoneUntilItSucceeds(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	who, data := s.Account(t, 0), random(3*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	s.SendAll(t, who, v, data)
	for range 4 {
		fate.Set(uploadtest.Rule{Point: "staging.Seal", N: 1, Effect: uploadtest.Fail})
		if state, _ := s.State(t, v.ID); state == "active" {
			if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{}); err == nil {
				t.Fatal("the fault was not reported")
			}
		} else {
			for n := 0; n < 20 && fate.Matched() == 0; n++ { // and no further: the next try would succeed
				s.AdvanceAndFire(t, time.Second)
				s.Settle()
			}
		}
		if !fate.Clear() {
			t.Fatal("the seal was not tried again")
		}
		wantState(t, s, v, "sealing")
	}
	s.AdvanceAndFire(t, 20*time.Second)
	s.Settle()
	wantState(t, s, v, "done")
	checkClean(t, s, who)
}

// Whatever transition loses its reply, and whether it was committed or not, timers bring the upload
// to its end.
func TestLostReplyLeavesATimer(t *testing.T) {
	t.Parallel()
	ops := map[string]func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, data []byte){
		"begin": nil,
		"resume": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, data []byte) {
			_ = s.Send(t, who, v, 1, data)
		},
		"complete": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, _ []byte) {
			_, _, _ = s.Complete(t.Context(), who, v.ID, upload.Complete{})
		},
		"cancel": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, _ []byte) {
			_ = s.Cancel(t.Context(), who, v.ID)
		},
		"patch": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, _ []byte) {
			_, _ = s.Patch(t.Context(), who, v.ID, upload.Patch{Name: "g"})
		},
	}
	for name, op := range ops {
		for _, how := range []uploadtest.Effect{uploadtest.Fail, uploadtest.LoseReply} {
			for n := 1; n <= 2; n++ {
				t.Run(fmt.Sprintf("%s %d %d", name, how, n), func(t *testing.T) {
					t.Parallel()
					s, fate := siteUnderFate(t)
					who, data := s.Account(t, 0), random(3*mib)
					rule := uploadtest.Rule{Point: "tx.commit", N: n, Effect: how}
					if op == nil {
						fate.Set(rule)
						_, _ = s.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: 17}, nil)
					} else {
						v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
						s.SendAll(t, who, v, data)
						s.AdvanceAndFire(t, time.Minute)
						wantState(t, s, v, "parked")
						fate.Set(rule)
						op(t, s, who, v, data)
						s.Settle()
					}
					fate.Clear()
					s.AdvanceAndFire(t, time.Minute)
					s.Settle()
					if name == "complete" && how == uploadtest.LoseReply && n == 1 { // it is sealing, and that needs nobody
						if got := s.Balance(t, who); got != fmt.Sprintf("%d/0/0", len(data)) {
							t.Errorf("a minute later the ledger is %s", got)
						}
					}
					s.AdvanceAndFire(t, 8*24*time.Hour)
					s.Settle()
					all, err := s.List(t.Context(), upload.ListQuery{Open: true, Limit: 10})
					if err != nil || len(all) > 0 {
						t.Errorf("still open: %+v, %v", all, err)
					}
					s.CheckLedger(t, who)
					if n, p := s.Lives(), s.Promised(); n != 0 || p != 0 {
						t.Errorf("%d uploads are in memory, %d bytes of disk are promised", n, p)
					}
				})
			}
		}
	}
}

// An upload whose directory is gone reports that and still ends.
func TestLostDirectory(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"active", "restarted", "parked"} {
		for _, end := range []string{"cancel", "time"} {
			t.Run(state+" "+end, func(t *testing.T) {
				t.Parallel()
				s := uploadtest.New(t, uploadtest.Options{})
				who, data := s.Account(t, 0), random(3*mib)
				v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
				send(t, s, who, v, 0, data)
				if state == "parked" {
					s.AdvanceAndFire(t, time.Minute)
				}
				if err := s.Local.Staging.Remove(t.Context(), v.Row().Ref()); err != nil {
					t.Fatal(err)
				}
				if state == "restarted" {
					s.Restart(t)
				}
				wantKind(t, s.Send(t, who, v, 1, data), drive.Gone)
				_, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
				if !drive.IsKind(err, drive.Gone, drive.PartsMissing) {
					t.Errorf("complete: %v", err)
				}
				if end == "cancel" {
					if err := s.Cancel(t.Context(), who, v.ID); err != nil {
						t.Fatal(err)
					}
				} else {
					s.AdvanceAndFire(t, 8*24*time.Hour)
				}
				wantState(t, s, v, "gone")
				if got := s.Balance(t, who); got != "0/0/0" {
					t.Errorf("the ledger is %s", got)
				}
				checkClean(t, s, who)
			})
		}
	}
}

// DESIGN 4: "After an unclean machine stop (boot id changed) an upload's parts are suspect: checked
// lazily, at the first resume or seal; bad ones are simply missing again."
func TestSuspectPartsAfterPowerLoss(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"part", "complete", "sealing"} {
		for _, damaged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s damaged=%v", at, damaged), func(t *testing.T) {
				t.Parallel()
				fate := &uploadtest.Faults{}
				s := uploadtest.New(t, uploadtest.Options{Dir: memoryDir(t), Faults: fate})
				who, data := s.Account(t, 0), random(5*mib)
				v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
				last := v.Parts
				if at == "part" {
					last--
				}
				for n := range last {
					send(t, s, who, v, n, data)
				}
				s.PowerLoss(t, func(file string) {
					if damaged {
						overwrite(t, file, 2*mib, make([]byte, 4096))
					}
				}, v)
				if at == "part" {
					send(t, s, who, v, 2, data)
				}
				_, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{})
				if damaged {
					if e := wantKind(t, err, drive.PartsMissing); fmt.Sprint(e.Args["missing"]) != "[1]" {
						t.Fatalf("missing: %v", e.Args["missing"])
					}
					send(t, s, who, v, 1, data)
					_, _, err = s.Complete(t.Context(), who, v.ID, upload.Complete{})
				}
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(s.Read(t, who, "/f"), data) {
					t.Error("the file has other bytes")
				}
				checkClean(t, s, who)
			})
		}
	}
}

// After a growth of unknown outcome the reservation is read again, and the charges match.
func TestGrowthOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, how := range []uploadtest.Effect{uploadtest.Fail, uploadtest.LoseReply} {
		s, fate := siteUnderFate(t)
		who := s.Account(t, 0)
		v := s.Start(t, who, "/f", blob.UnknownSize)
		part := func(n int) error {
			p := upload.PutPart{N: n, Size: 64 * drive.MiB}
			return s.Put(t.Context(), who, v.ID, p, io.LimitReader(zeros{}, 64<<20))
		}
		if err := part(0); err != nil {
			t.Fatal(err)
		}
		fate.Set(uploadtest.Rule{Point: "tx.commit", N: 1, Effect: how})
		if err := part(1); !drive.IsKind(err, drive.Unavailable) {
			t.Fatalf("got %v", err)
		}
		fate.Clear()
		if err := part(1); err != nil {
			t.Fatalf("the fault is gone: %v", err)
		}
		s.CheckLedger(t, who)
		size := 128 * drive.MiB
		if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Size: &size}); err != nil {
			t.Fatal(err)
		}
		checkClean(t, s, who)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A duplicate delivery, an old gen, and a timer of an ended upload change nothing.
func TestOldTimersChangeNothing(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s, who, v, 0, data)
	s.AdvanceAndFire(t, time.Minute)
	_, gen := s.State(t, v.ID)
	s.Clock.Advance(30 * 24 * time.Hour)
	for g := int64(0); g <= gen+2; g++ {
		if g == gen {
			continue
		}
		for kind, handle := range map[timer.Kind]timer.Handler{timer.Park: s.OnPark, timer.Abandon: s.OnAbandon} {
			if err := handle(t.Context(), timer.Fired{Key: timer.Key{Kind: kind, ID: v.ID}, Gen: g}); err != nil {
				t.Errorf("%v of gen %d: %v", kind, g, err)
			}
		}
	}
	if state, now := s.State(t, v.ID); state != "parked" || now != gen {
		t.Errorf("the upload is %s in gen %d", state, now)
	}
}

// overwrite changes bytes of a file outside the program.
func overwrite(t *testing.T, file string, off int, b []byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(b, int64(off)); err != nil {
		t.Fatal(err)
	}
}
