package upload_test

import (
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A crash loses the cached time of the last part. The journal has it, so the upload is not
// reclaimed early.
func TestIdleTimeAfterRestartCountsFromLastPart(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{Idle: 3 * day, Abandon: 4 * day}})
	who, data := s.Account(t, 0), random(7*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	for n := range 2 {
		s.AdvanceAndFire(t, 2*day)
		if err := s.Send(t, who, v, n, data); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart(t)
	s.AdvanceAndFire(t, 3*day+2*time.Hour) // parked by now; day 7 after begin, day 3 after the last part
	if got, err := s.Get(t.Context(), who, v.ID); err != nil || got.State != "parked" {
		t.Fatalf("%+v, %v", got, err)
	}
	s.AdvanceAndFire(t, day)
	_, err := s.Get(t.Context(), who, v.ID)
	wantKind(t, err, drive.Gone)
}
