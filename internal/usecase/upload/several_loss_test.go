package upload_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// FLUSHALL of journals and timers amid 1,000 uploads: acknowledged parts stay received, timers are
// rearmed, balances are right, and all uploads end in time.
func TestEverythingInRedisIsLostAmongAThousandUploads(t *testing.T) {
	t.Parallel()
	const uploads, size = 1000, mib + 100 // the second part is small
	s := twoInstances(t, upload.Options{PartSize: drive.MiB})
	var who []drive.Who
	views := make([]upload.View, uploads)
	begun := s.Clock.Now()
	for i := range views {
		if i%100 == 0 {
			who = append(who, s.a.Account(t, 0))
		}
		on := []*uploadtest.Site{s.a, s.b}[i%2]
		views[i] = on.Start(t, who[i/100], fmt.Sprint("/", i), drive.ByteSize(size))
		send(t, on, who[i/100], views[i], 1, make([]byte, size))
		if i == uploads/2 {
			s.a.AdvanceAndFire(t, 40*time.Second) // the first half is parked
		}
	}
	s.ForgetJournals()
	s.ForgetTimers()
	s.a.LoseTimers(t)
	check := func(what string, states ...string) {
		t.Helper()
		for i, v := range views {
			got, err := s.b.Get(t.Context(), who[i/100], v.ID)
			if err != nil || fmt.Sprint(got.Received) != "[[1 1]]" {
				t.Fatalf("%s: upload %d: received %v, %v", what, i, got.Received, err)
			}
			if want := states[min(i/(uploads/2+1), len(states)-1)]; got.State != want {
				t.Fatalf("%s: upload %d is %s, want %s", what, i, got.State, want)
			}
		}
		for _, w := range who {
			s.b.CheckLedger(t, w)
		}
	}
	check("at once", "parked", "active")
	s.b.AdvanceAndFire(t, 40*time.Second)
	check("a little later", "parked")
	for i, v := range views {
		if _, err := s.Queue.Show(t.Context(), timer.Key{Kind: timer.Abandon, ID: v.ID}); err != nil {
			t.Fatalf("upload %d has no timer: %v", i, err)
		}
	}
	s.b.AdvanceAndFire(t, begun.Add(7*24*time.Hour-time.Minute).Sub(s.Clock.Now()))
	check("before their time", "parked")
	s.a.AdvanceAndFire(t, 2*time.Hour)
	s.clean(t, who...)
	for _, w := range who {
		if got := s.a.Balance(t, w); got != "0/0/0" {
			t.Errorf("at the end a ledger is %s", got)
		}
	}
}

// Whichever instance notices a loss of timers, none starts a reclaim for an hour.
func TestTimerLossSuspendsReclaimsEverywhere(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who := s.a.Account(t, 0)
	v := s.a.Start(t, who, "/f", 100)
	s.a.AdvanceAndFire(t, 40*time.Second)
	wantState(t, s.a, v, "parked")
	s.Clock.Advance(8 * 24 * time.Hour)
	s.ForgetTimers()
	for range 2 { // a repeat of the report is harmless
		s.a.LoseTimers(t)
	}
	abandon := func() {
		_, gen := s.b.State(t, v.ID)
		_ = s.b.OnAbandon(t.Context(), timer.Fired{Key: timer.Key{Kind: timer.Abandon, ID: v.ID}, Gen: gen})
	}
	abandon()
	wantState(t, s.a, v, "parked")
	s.Clock.Advance(59 * time.Minute)
	abandon()
	wantState(t, s.a, v, "parked")
	s.Clock.Advance(2 * time.Minute)
	abandon()
	wantState(t, s.a, v, "gone")
	s.clean(t, who)
}

// An instance's clock is wrong by more than an upload is kept: only the database's clock counts.
func TestInstanceWithAWrongClock(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{10 * 24 * time.Hour, -10 * 24 * time.Hour} {
		sh, dir := uploadtest.NewShared(), memoryDir(t)
		right := upload.Options{RowClock: sh.Clock.Read}
		off := right
		off.Now = func() time.Time { return sh.Clock.Now().Add(wrong) }
		a := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Upload: off})
		b := uploadtest.New(t, uploadtest.Options{Dir: dir, Shared: sh, Upload: right})
		who, data := b.Account(t, 0), random(3*mib)
		v := a.Start(t, who, "/f", drive.ByteSize(len(data)))
		sh.Clock.Advance(2 * time.Hour)
		send(t, a, who, v, 0, data)
		a.Fire(t)
		wantState(t, b, v, "active")
		sh.Clock.Advance(40 * time.Second)
		a.Fire(t)
		wantState(t, b, v, "parked")
		for range 7*24 - 1 {
			sh.Clock.Advance(time.Hour)
			a.Fire(t)
			b.Fire(t)
		}
		wantState(t, b, v, "parked")
		sh.Clock.Advance(2 * time.Hour)
		a.Fire(t)
		wantState(t, b, v, "gone")
		checkClean(t, b, who)
	}
}

// An upload parked by another instance is evicted here once unused.
func TestUnusedUploadsAreEvicted(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{})
	who, data := s.a.Account(t, 0), random(100)
	var used upload.View
	for i := range 50 {
		used = s.a.Start(t, who, fmt.Sprint("/", i), 100)
	}
	if n := s.a.Lives(); n != 50 {
		t.Fatalf("%d uploads are in memory", n)
	}
	for range 10 {
		s.Clock.Advance(20 * time.Second)
		send(t, s.a, who, used, 0, data)
		s.b.Fire(t)
	}
	if n, p := s.a.Lives(), s.a.Promised(); n != 1 || p != 0 {
		t.Errorf("%d uploads are in memory, %d bytes are promised", n, p)
	}
}

// Concurrent requests of all kinds at two instances, with timers, leave consistent sums.
func TestTwoInstancesAtOnce(t *testing.T) {
	t.Parallel()
	s := twoInstances(t, upload.Options{PartSize: drive.MiB})
	who := s.a.Account(t, 20*drive.MiB)
	const size = 2*mib + 100
	data := make([]byte, size)
	var views []upload.View
	for i := range 6 {
		views = append(views, s.a.Start(t, who, fmt.Sprint("/", i), drive.ByteSize(size)))
	}
	var all sync.WaitGroup
	for worker := range 4 {
		on := []*uploadtest.Site{s.a, s.b}[worker%2]
		all.Go(func() {
			for i := range 60 {
				v := views[(i+worker)%len(views)]
				switch (i*7 + worker*3) % 10 {
				case 0:
					_ = on.DeletePart(t.Context(), who, v.ID, i%3)
				case 1:
					_, _ = on.Patch(t.Context(), who, v.ID, upload.Patch{Name: drive.Name(fmt.Sprint("n", worker, i))})
				case 2:
					_, _, _ = on.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(data)})
				case 3:
					s.Clock.Advance(31 * time.Second)
					on.Fire(t)
				case 4:
					s.ForgetJournals()
				default:
					_ = on.Send(t, who, v, i%3, data)
				}
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	s.a.Settle()
	s.b.Settle()
	s.a.CheckLedger(t, who)
	for range 36 { // 9 min; a seal that a timer has begun must have ended before the next look
		s.a.AdvanceAndFire(t, 15*time.Second)
		s.a.Settle()
	}
	for i, v := range views {
		switch state, _ := s.a.State(t, v.ID); state {
		case "done":
		case "active", "parked":
			on := []*uploadtest.Site{s.a, s.b}[i%2]
			on.SendAll(t, who, v, data)
			if _, _, err := on.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(data)}); err != nil {
				t.Errorf("upload %d: %v", i, err)
			}
		default:
			t.Errorf("upload %d is %s", i, state)
		}
	}
	s.clean(t, who)
	if got := s.a.Balance(t, who); got != fmt.Sprintf("%d/0/0", 6*size) {
		t.Errorf("the ledger is %s", got)
	}
}
