package upload_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func parkOf(v upload.View, gen int64) timer.Fired {
	return timer.Fired{Key: timer.Key{Kind: timer.Park, ID: v.ID}, Gen: gen}
}

// An instance stalls in the middle of a change that another instance then makes. It must notice
// that the ledger has moved already.
func TestStalledInstanceIsOvertaken(t *testing.T) {
	t.Parallel()
	data := random(3 * mib)
	for name, c := range map[string]struct {
		point string
		meant func(*testing.T, several, drive.Who, upload.View) error // by a
		done  func(*testing.T, several, drive.Who, upload.View) error // by b, meanwhile
		state string
	}{
		"seal and seal": {
			point: "staging.Seal",
			meant: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				_, _, err := s.a.Complete(t.Context(), who, v.ID, upload.Complete{})
				return err
			},
			done: func(t *testing.T, s several, _ drive.Who, v upload.View) error {
				_ = s.b.OnPark(t.Context(), parkOf(v, 2)) // comes again later
				s.b.Settle()
				return nil
			},
			state: "done",
		},
		"park and cancel": {
			point: "staging.Fence",
			meant: func(t *testing.T, s several, _ drive.Who, v upload.View) error {
				s.Clock.Advance(time.Minute)
				return s.a.OnPark(t.Context(), parkOf(v, 1))
			},
			done: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				return s.b.Cancel(t.Context(), who, v.ID)
			},
			state: "gone",
		},
		"cancel and cancel": {
			point: "staging.Fence",
			meant: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				return s.a.Cancel(t.Context(), who, v.ID)
			},
			done: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				return s.b.Cancel(t.Context(), who, v.ID)
			},
			state: "gone",
		},
		"resume and resume": {
			point: "staging.Load",
			meant: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				s.b.AdvanceAndFire(t, time.Minute)
				return s.a.Send(t, who, v, 0, data)
			},
			done: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				return s.b.Send(t, who, v, 1, data)
			},
			state: "active",
		},
		"reclaim and reclaim": {
			point: "staging.Remove",
			meant: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				return s.a.Cancel(t.Context(), who, v.ID)
			},
			done: func(t *testing.T, s several, who drive.Who, v upload.View) error {
				return s.b.Cancel(t.Context(), who, v.ID)
			},
			state: "gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, fate := twoInstances(t, upload.Options{}), &uploadtest.Faults{}
			s.a = uploadtest.New(t, uploadtest.Options{Dir: s.b.Dir, Shared: s.Shared, Faults: fate})
			who := s.a.Account(t, 2*drive.ByteSize(len(data))-1) // one such upload, not two
			v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
			s.a.SendAll(t, who, v, data)
			var other error
			fate.Set(uploadtest.Rule{Point: c.point, N: 1, Effect: uploadtest.RunAfter, Do: func() { other = c.done(t, s, who, v) }})
			if err := c.meant(t, s, who, v); err != nil || other != nil || !fate.Clear() {
				t.Errorf("who was overtaken says %v, the other %v", err, other)
			}
			wantState(t, s.b, v, c.state)
			s.clean(t, who)
		})
	}
}

// The journal's server loses the last fence, and an instance keeps filling a parked upload. Its
// parts must not be reclaimed.
func TestPartsAfterALostFenceAreNotReclaimed(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(5*mib)
	s.Clock.Advance(2 * time.Hour) // reclaims are allowed
	v := s.a.Start(t, who, "/f", drive.ByteSize(len(data)))
	s.b.AdvanceAndFire(t, 40*time.Second)
	wantState(t, s.b, v, "parked")
	s.ForgetFence(v.ID)
	send(t, s.a, who, v, 0, data)
	s.Clock.Advance(3 * time.Minute) // an upload without a byte is given up after two
	s.b.Fire(t)
	send(t, s.a, who, v, 1, data)
	s.b.CheckLedger(t, who)
	if got := s.a.Balance(t, who); got != fmt.Sprintf("0/0/%d", len(data)) {
		t.Errorf("the ledger is %s: an upload that goes on is charged", got)
	}
	send(t, s.a, who, v, 2, data)
	complete(t, s.b, who, v)
	wantFile(t, s.a, who, "/f", data)
	s.clean(t, who)
}

// A part is dropped at one instance and sent again at another that has it cached: its space is used
// once.
func TestSpaceOfDroppedPartIsUsedOnce(t *testing.T) {
	t.Parallel()
	const part, room = drive.MiB, 4 // the first grant is cut to what the account has
	s := twoInstances(t, upload.Options{})
	who := s.a.Account(t, room*part)
	v, err := s.a.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: blob.UnknownSize}, nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(on *uploadtest.Site, n int) error {
		return on.Put(t.Context(), who, v.ID, upload.PutPart{N: n, Size: part}, bytes.NewReader(make([]byte, part)))
	}
	if err := errors.Join(put(s.a, 0), put(s.a, 1), put(s.b, 0)); err != nil {
		t.Fatal(err)
	}
	n := 2
	for range 2 {
		for range 6 {
			if err := s.a.DeletePart(t.Context(), who, v.ID, 0); err != nil {
				t.Fatal(err)
			}
			if err := put(s.b, 0); err != nil && !drive.IsKind(err, drive.Quota) {
				t.Fatal(err)
			}
			_ = put(s.a, 0)
		}
		for ; put(s.a, n) == nil; n++ { //nolint:revive // as many as are taken
		}
		s.a.AdvanceAndFire(t, time.Minute)
	}
	parts, err := s.b.ListParts(t.Context(), who, v.ID)
	if err != nil || len(parts) > room+1 { // one too many: what two cannot know of each other
		t.Errorf("%d parts of an account with room for %d, %v", len(parts), room, err)
	}
}

// Reset counts an upload even if another instance's timer finishes its reclaim.
func TestResetCountsUploadsEndedElsewhere(t *testing.T) {
	t.Parallel()
	s, fate := twoInstances(t, upload.Options{}), &uploadtest.Faults{}
	s.a = uploadtest.New(t, uploadtest.Options{Dir: s.b.Dir, Shared: s.Shared, Faults: fate})
	who := s.a.Account(t, 0)
	v := s.a.Start(t, who, "/f", 3*drive.MiB)
	fate.Set(uploadtest.Rule{Point: "staging.Remove", N: 1, Effect: uploadtest.RunBefore, Do: func() {
		if err := s.b.Cancel(t.Context(), who, v.ID); err != nil {
			t.Error(err)
		}
	}})
	if n, err := s.a.ReclaimAll(t.Context(), who.Account); n != 1 || err != nil {
		t.Errorf("%d were reset, %v", n, err)
	}
	wantState(t, s.b, v, "gone")
	s.clean(t, who)
}
