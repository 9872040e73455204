package upload_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// countingStaging is a staging that keeps the list of parts but no bytes.
type countingStaging struct {
	blob.Staging
	mu    sync.Mutex
	parts map[drive.UploadID]map[int]blob.Part
}

func (w *countingStaging) Write(_ context.Context, ref blob.Ref, p blob.Write, _ blob.Body) (blob.Part, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parts == nil {
		w.parts = map[drive.UploadID]map[int]blob.Part{}
	}
	if w.parts[ref.ID] == nil {
		w.parts[ref.ID] = map[int]blob.Part{}
	}
	part := blob.Part{N: p.N, Size: p.Size, Session: p.Session}
	w.parts[ref.ID][p.N] = part
	return part, nil
}

func (w *countingStaging) Load(_ context.Context, ref blob.Ref) (s blob.Staged, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts[ref.ID] {
		s.Parts = append(s.Parts, p)
		s.Held += p.Size
	}
	slices.SortFunc(s.Parts, func(a, b blob.Part) int { return a.N - b.N })
	return s, nil
}

func (w *countingStaging) Fence(ctx context.Context, ref blob.Ref, _ int64) (blob.Staged, error) {
	return w.Load(ctx, ref)
}

func (w *countingStaging) Seal(context.Context, blob.Ref, drive.ByteSize) error { return nil }

// P5: three transactions an upload, and two for each pause, whatever the number of parts; and a part asks the database nothing.
func TestTransactionsAreIndependentOfPartCount(t *testing.T) {
	t.Parallel()
	for _, parts := range []int{1, 100, 10_000} {
		for _, pauses := range []int{0, 3} {
			t.Run(fmt.Sprintf("%d parts %d pauses", parts, pauses), func(t *testing.T) {
				t.Parallel()
				var count sqldbtest.Counter
				s := uploadtest.New(t, uploadtest.Options{
					DB:      sqldb.Options{Connector: count.Connector},
					Staging: func(u blob.Staging) blob.Staging { return &countingStaging{Staging: u} },
					Store:   func(b blob.Store) blob.Store { return roomy{b, drive.MaxFileSize} }, // this disk may have no 10 GiB left
					Upload:  upload.Options{PartSize: drive.MiB},
				})
				who, size := s.Account(t, 0), drive.ByteSize(parts)*drive.MiB-3
				before := s.DB.Stats().Writes.Load()
				v := s.Start(t, who, "/f", size)
				for pause := range pauses + 1 {
					if pause > 0 {
						s.AdvanceAndFire(t, time.Minute)
						wantState(t, s, v, "parked")
					}
					sendWeightless(t, s, who, v, pause, pauses+1, &count)
				}
				complete(t, s, who, v)
				if got := s.DB.Stats().Writes.Load() - before; got > int64(3+2*pauses) || pauses == 0 && got != 3 {
					t.Errorf("%d transactions", got)
				}
			})
		}
	}
}

// sendWeightless sends the parts of one stretch. Only its first part may access the database.
func sendWeightless(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View, stretch, of int, count *sqldbtest.Counter) {
	t.Helper()
	calls := count.Total()
	for i, n := 0, stretch; n < v.Parts; i, n = i+1, n+of {
		p := upload.PutPart{N: n, Size: min(v.PartSize, *v.Size-drive.ByteSize(n)*v.PartSize)}
		if err := s.Put(t.Context(), who, v.ID, p, nil); err != nil {
			t.Fatal(err)
		}
		if i == 0 && stretch > 0 {
			calls = count.Total() // it has resumed the upload
		}
	}
	if got := count.Total() - calls; got != 0 {
		t.Errorf("the parts made %d database calls", got)
	}
}
