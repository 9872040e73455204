package upload_test

import (
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// The clock jumps a month ahead, and the clock of retention does not believe it: no upload with
// bytes ends, however long that lasts. One that never had a byte goes, and when the time has really
// passed the others go, too.
func TestClockJumpEndsNoUpload(t *testing.T) {
	t.Parallel()
	behind := time.Duration(0)
	var s *uploadtest.Site
	s = uploadtest.New(t, uploadtest.Options{Upload: upload.Options{Kept: func() time.Time { return s.Clock.Now().Add(-behind) }}})
	who, data := s.Account(t, 0), random(3*mib)
	kept, empty := s.Start(t, who, "/f", drive.ByteSize(len(data))), s.Start(t, who, "/g", drive.ByteSize(len(data)))
	send(t, s, who, kept, 0, data)
	s.Clock.Advance(31 * time.Second)
	s.Fire(t)
	wantState(t, s, kept, "parked")

	behind = 31 * 24 * time.Hour
	s.Clock.Advance(behind)
	s.LostTimers() // as the queue tells of a step
	s.Pass(t, 3*time.Hour)
	wantState(t, s, kept, "parked")
	wantState(t, s, empty, "gone")
	if err := s.PurgeEnded(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantState(t, s, empty, "gone") // it can still be asked for
	behind = 0
	s.Pass(t, 2*time.Hour)
	wantState(t, s, kept, "gone")
	if err := s.PurgeEnded(t.Context()); err != nil {
		t.Fatal(err)
	}
	clean(t, s, who)
}

// Bytes come while the clock is a month ahead, and the clock is set right: the upload that has gone
// quiet is parked after the quiet time, not in a month.
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

// The clock is ten years behind when a parked upload is looked at: the timer asks again within a
// day, when somebody may have set the clock right.
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
	if wait, ok := timer.IsLater(s.OnAbandon(t.Context(), fired)); !ok || wait > 24*time.Hour {
		t.Errorf("it is asked again after %v; %t", wait, ok)
	}
}

// Timers were lost while the clock was a year ahead, and the clock is set right: reclaims wait for
// an hour, not for a year.
func TestLossByFastClockSuspendsReclaimsOneHour(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 0)
	s.Clock.Advance(year)
	if err := s.NoteLoss(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(-year)
	v := s.Start(t, who, "/f", 3*drive.MiB)
	s.Clock.Advance(31 * 24 * time.Hour) // too old, and so is what was noted for all
	fired := timer.Fired{Key: timer.Key{Kind: timer.Abandon, ID: v.ID}, Gen: 1}
	for range 3 {
		if wait, ok := timer.IsLater(s.OnAbandon(t.Context(), fired)); ok {
			s.Clock.Advance(min(wait, time.Hour))
		}
	}
	wantState(t, s, v, "gone")
}
