package upload_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/testkit/depth"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// unfinished makes a final that waits for a complete partial upload and one of which last is missing.
func unfinished(t *testing.T, s *uploadtest.Site, deferred bool) (p pieces, last []byte) {
	t.Helper()
	p = cut(t, s, 1000)
	data := random(2*mib + 5)
	size := drive.ByteSize(len(data))
	if deferred {
		size = blob.UnknownSize
	}
	v, err := s.Begin(t.Context(), p.who, upload.Begin{Size: size, Kind: upload.Partial, Protocol: upload.Tus}, nil)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s.Sessions, p.who, v.ID, 0, data[:mib])
	p.ids, p.data = append(p.ids, v.ID), append(p.data, data...)
	return p, data[mib:]
}

func TestAFinalWaits(t *testing.T) {
	t.Parallel()
	for _, deferred := range []bool{false, true} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprint(deferred, parked), func(t *testing.T) {
				t.Parallel()
				s := uploadtest.New(t, uploadtest.Options{Dir: quickDir(t)})
				p, last := unfinished(t, s, deferred)
				before := s.Balance(t, p.who)
				v, err := join(t, s.Sessions, p)
				if err != nil || v.State != "waiting" {
					t.Fatalf("%+v, %v", v, err)
				}
				if got := s.Balance(t, p.who); got != before {
					t.Errorf("to wait costs: %s, before %s", got, before)
				}
				if again, err := join(t, s.Sessions, p); err != nil || !again.Found || again.ID != v.ID {
					t.Errorf("the same again: %+v, %v", again, err)
				}
				refusedWhileWaiting(t, s, p, v)
				if parked {
					s.Pass(t, 5*time.Minute)
				}
				pos, err := s.Offset(t.Context(), p.who, v.ID)
				if err != nil || !pos.Waiting || pos.Offset != 0 || (pos.Size == blob.UnknownSize) != deferred || !deferred && int(pos.Size) != len(p.data) {
					t.Errorf("position %+v, %v", pos, err)
				}
				add(t, s.Sessions, p.who, p.ids[1], mib, last)
				if deferred {
					if pos, err := s.Offset(t.Context(), p.who, v.ID); err != nil || !pos.Waiting {
						t.Errorf("before the length is declared: %+v, %v", pos, err)
					}
					if err := s.DeclareSize(t.Context(), p.who, p.ids[1], drive.ByteSize(2*mib+5)); err != nil {
						t.Fatal(err)
					}
				}
				if state, _ := s.State(t, v.ID); state == "parked" {
					t.Error("nobody has told it")
				}
				wantJoined(t, s, p, v.ID)
				if pos, err := s.Offset(t.Context(), p.who, p.ids[1]); err != nil || !pos.Joined || int(pos.Offset) != 2*mib+5 {
					t.Errorf("the last partial one is %+v, %v", pos, err)
				}
				s.Pass(t, time.Minute)
				clean(t, s, p.who)
			})
		}
	}
}

// refusedWhileWaiting tries what a final that waits does not take.
func refusedWhileWaiting(t *testing.T, s *uploadtest.Site, p pieces, v upload.View) {
	t.Helper()
	ctx := t.Context()
	if _, err := s.Append(ctx, p.who, v.ID, upload.Append{Size: 1}, bytes.NewReader([]byte("x"))); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("append: %v", err)
	}
	if err := s.Send(t, p.who, v, 0, []byte("x")); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("a part: %v", err)
	}
	if err := s.DeclareSize(ctx, p.who, v.ID, 5); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("declare: %v", err)
	}
	if _, err := s.Patch(ctx, p.who, v.ID, upload.Patch{Name: "other"}); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("patch: %v", err)
	}
	if _, _, err := s.Complete(ctx, p.who, v.ID, upload.Complete{}); !drive.IsKind(err, drive.PartsMissing) {
		t.Errorf("complete: %v", err)
	}
	for _, ids := range [][]drive.UploadID{{p.ids[0]}, {p.ids[1]}, {p.ids[1], p.ids[0]}} {
		if _, err := join(t, s.Sessions, p, ids...); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("another final of %d of them: %v", len(ids), err)
		}
	}
	s.CheckLedger(t, p.who)
}

// What ends a partial upload ends the final that waits for it; a final that ends leaves its partial ones to another.
func TestWhatEndsAFinalThatWaits(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Dir: quickDir(t), Upload: upload.Options{Abandon: time.Hour}})
	gone := func(p pieces, id drive.UploadID, reason string) {
		t.Helper()
		_, err := s.Get(t.Context(), p.who, id)
		if e := wantKind(t, err, drive.Gone); e.Args["reason"] != reason {
			t.Errorf("it is gone because of %v, not of %q", e.Args["reason"], reason)
		}
		s.CheckLedger(t, p.who)
	}
	p, _ := unfinished(t, s, false)
	v, err := join(t, s.Sessions, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Cancel(t.Context(), p.who, p.ids[1]); err != nil {
		t.Fatal(err)
	}
	gone(p, v.ID, upload.ReasonPartial)
	if _, err := join(t, s.Sessions, p); !drive.IsKind(err, drive.Gone) {
		t.Errorf("one of a cancelled one: %v", err)
	}
	if _, err := s.Reset(t.Context(), p.who.Account); err != nil {
		t.Fatal(err)
	}
	clean(t, s, p.who)

	p, last := unfinished(t, s, false)
	if v, err = join(t, s.Sessions, p); err != nil {
		t.Fatal(err)
	}
	if err := s.Cancel(t.Context(), p.who, v.ID); err != nil {
		t.Fatal(err)
	}
	gone(p, v.ID, upload.ReasonCancelled)
	add(t, s.Sessions, p.who, p.ids[1], mib, last)
	again, err := join(t, s.Sessions, p)
	if err != nil || again.ID == v.ID {
		t.Fatalf("after the final was cancelled: %+v, %v", again, err)
	}
	wantJoined(t, s, p, again.ID)

	p, _ = unfinished(t, s, false)
	if v, err = join(t, s.Sessions, p); err != nil {
		t.Fatal(err)
	}
	s.Pass(t, 150*time.Minute) // longer than a quiet upload is kept
	gone(p, v.ID, upload.ReasonPartial)
	clean(t, s, p.who)

	p, _ = unfinished(t, s, true)
	if v, err = join(t, s.Sessions, p); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Reset(t.Context(), p.who.Account); err != nil || n == 0 {
		t.Errorf("%d were reset, %v", n, err)
	}
	if _, err := s.Get(t.Context(), p.who, v.ID); !drive.IsKind(err, drive.Gone) {
		t.Errorf("after a reset: %v", err)
	}
	clean(t, s, p.who)
}

// The process dies at each call while the final is begun, while the last bytes come, and while a partial one is cancelled. What is left
// comes to its end by timers, and by the client doing the same again.
func TestAFinalThatWaitsDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	for name, open := range underFate {
		for _, how := range []uploadtest.How{uploadtest.Die, uploadtest.DieAfter, uploadtest.Lose, uploadtest.Fail} {
			t.Run(fmt.Sprint(name, how, "begin"), func(t *testing.T) {
				t.Parallel()
				s, fate, left := open(t)
				atEveryCall(t, s, fate, how, func(arm, disarm func()) {
					p, last := unfinished(t, s, false)
					arm()
					_, _ = join(t, s.Sessions, p)
					disarm()
					if _, err := join(t, left.Sessions, p); err != nil {
						t.Errorf("once more: %v", err)
						return
					}
					add(t, left.Sessions, p.who, p.ids[1], mib, last)
					finishJoin(t, left, p)
				})
			})
			t.Run(fmt.Sprint(name, how, "last"), func(t *testing.T) {
				t.Parallel()
				s, fate, left := open(t)
				atEveryCall(t, s, fate, how, func(arm, disarm func()) {
					p, last := unfinished(t, s, false)
					v, err := join(t, s.Sessions, p)
					if err != nil {
						t.Fatal(err)
					}
					arm()
					_, _ = s.Append(t.Context(), p.who, p.ids[1], upload.Append{Offset: drive.MiB, Size: drive.ByteSize(len(last))}, bytes.NewReader(last))
					disarm()
					finishLast(t, left, p, v, last)
				})
			})
			t.Run(fmt.Sprint(name, how, "cancel"), func(t *testing.T) {
				t.Parallel()
				s, fate, left := open(t)
				atEveryCall(t, s, fate, how, func(arm, disarm func()) {
					p, _ := unfinished(t, s, false)
					v, err := join(t, s.Sessions, p)
					if err != nil {
						t.Fatal(err)
					}
					arm()
					_ = s.Cancel(t.Context(), p.who, p.ids[1])
					disarm()
					left.CheckLedger(t, p.who)
					if err := left.Cancel(t.Context(), p.who, p.ids[1]); err != nil {
						t.Errorf("once more: %v", err)
					}
					quarters(t, left)
					if state, _ := left.State(t, v.ID); state != "gone" {
						t.Errorf("the final is %s", state)
					}
					if err := left.Cancel(t.Context(), p.who, p.ids[0]); err != nil {
						t.Error(err)
					}
					left.CheckLedger(t, p.who)
				})
			})
		}
	}
}

// atEveryCall runs act with a fault at its first call, its second and so on, until there are no more.
func atEveryCall(t *testing.T, s *uploadtest.Site, fate *uploadtest.Fate, how uploadtest.How, act func(arm, disarm func())) {
	t.Helper()
	for n, came := 1, true; came && !t.Failed(); n += depth.Pick(15, 5, 1) {
		act(func() { fate.Set(uploadtest.Rule{N: n, How: how}) }, func() {
			s.Settle()
			came = fate.Clear()
			if how == uploadtest.Die || how == uploadtest.DieAfter {
				s.Restart(t)
			}
		})
		if t.Failed() {
			t.Logf("at call %d", n)
		}
	}
}

// finishLast lets timers alone put together what is complete, and else sends the rest.
func finishLast(t *testing.T, s *uploadtest.Site, p pieces, v upload.View, last []byte) {
	t.Helper()
	s.CheckLedger(t, p.who)
	pos, err := s.Offset(t.Context(), p.who, p.ids[1])
	if err != nil {
		t.Errorf("the partial one: %v", err)
		return
	}
	if !pos.Joined && pos.Offset < pos.Size {
		rest := last[pos.Offset-drive.MiB:]
		if _, err := s.Append(t.Context(), p.who, p.ids[1], upload.Append{Offset: pos.Offset, Size: drive.ByteSize(len(rest))}, bytes.NewReader(rest)); err != nil {
			t.Errorf("the rest: %v", err)
			return
		}
	}
	quarters(t, s)
	if state, _ := s.State(t, v.ID); state != "done" && state != "sealing" {
		t.Errorf("the final is %s", state)
	}
	finishJoin(t, s, p)
}

// quarters lets two minutes pass.
func quarters(t *testing.T, s *uploadtest.Site) {
	t.Helper()
	s.Settle()
	for range 8 {
		s.Clock.Advance(15 * time.Second)
		s.Fire(t)
		s.Settle()
	}
}
