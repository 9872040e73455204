package upload_test

import (
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/upload"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// The clock jumps a month ahead, and the clock of retention does not believe it: no upload with
// bytes ends, however long that lasts. One that never had a byte goes, and when the time has really
// passed the others go, too.
func TestAClockThatJumpsEndsNoUpload(t *testing.T) {
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
