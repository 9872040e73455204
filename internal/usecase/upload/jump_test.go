package upload_test

import (
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The clock jumps a month ahead: no upload with bytes ends until the time has really passed; an
// empty one does.
func TestClockJumpEndsNoUpload(t *testing.T) {
	t.Parallel()
	behind := time.Duration(0)
	var s *uploadtest.Site
	s = uploadtest.New(t, uploadtest.Options{Upload: upload.Options{RetentionClock: func() time.Time { return s.Clock.Now().Add(-behind) }}})
	who, data := s.Account(t, 0), random(3*mib)
	kept, empty := s.Start(t, who, "/f", drive.ByteSize(len(data))), s.Start(t, who, "/g", drive.ByteSize(len(data)))
	send(t, s, who, kept, 0, data)
	s.Clock.Advance(31 * time.Second)
	s.Fire(t)
	wantState(t, s, kept, "parked")

	behind = 31 * 24 * time.Hour
	s.Clock.Advance(behind)
	s.SuspendReclaims() // as the queue tells of a step
	s.AdvanceAndFire(t, 3*time.Hour)
	wantState(t, s, kept, "parked")
	wantState(t, s, empty, "gone")
	if err := s.PurgeEnded(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantState(t, s, empty, "gone") // it can still be asked for
	behind = 0
	s.AdvanceAndFire(t, 2*time.Hour)
	wantState(t, s, kept, "gone")
	if err := s.PurgeEnded(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkClean(t, s, who)
}

// Bytes arrive while the clock is a month ahead. After the clock is corrected the upload is parked
// after the idle time, not a month later.
func TestParkAfterClockSetBack(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	s.Clock.Advance(month)
	send(t, s, who, v, 0, data)
	s.Clock.Advance(-month)
	fired := timer.Fired{Key: timer.Key{Kind: timer.Park, ID: v.ID}, Gen: 1}
	if err := s.OnPark(t.Context(), fired); err != nil {
		t.Errorf("the timer is answered: %v", err)
	}
	wantState(t, s, v, "parked")
}

// If the clock is ten years behind when a parked upload is checked, the timer fires again within a
// day.
func TestWrongClockDoesNotDelayForYears(t *testing.T) {
	t.Parallel()
	const years = 10 * 365 * 24 * time.Hour
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	send(t, s, who, v, 0, data)
	s.Clock.Advance(31 * time.Second)
	s.Fire(t)
	wantState(t, s, v, "parked")
	s.Clock.Advance(-years)
	fired := timer.Fired{Key: timer.Key{Kind: timer.Abandon, ID: v.ID}, Gen: 2}
	if wait, ok := timer.LaterDelay(s.OnAbandon(t.Context(), fired)); !ok || wait > 24*time.Hour {
		t.Errorf("it is asked again after %v; %t", wait, ok)
	}
}

// A loss of timers recorded by a clock a year ahead suspends reclaims for an hour, not for a year.
func TestLossByFastClockSuspendsReclaimsOneHour(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 0)
	s.Clock.Advance(year)
	if err := s.SuspendAllReclaims(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(-year)
	v := s.Start(t, who, "/f", 3*drive.MiB)
	s.Clock.Advance(31 * 24 * time.Hour) // too old, and so is what was noted for all
	fired := timer.Fired{Key: timer.Key{Kind: timer.Abandon, ID: v.ID}, Gen: 1}
	for range 3 {
		if wait, ok := timer.LaterDelay(s.OnAbandon(t.Context(), fired)); ok {
			s.Clock.Advance(min(wait, time.Hour))
		}
	}
	wantState(t, s, v, "gone")
}
