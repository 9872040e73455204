package upload_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// publishedRecords returns the types of the records about an upload, in order, and the data of the
// last one.
func publishedRecords(t *testing.T, s *uploadtest.Site, id drive.UploadID) (types []string, last map[string]any) {
	t.Helper()
	rows, err := s.DB.Query(t.Context(), "SELECT event FROM outbox ORDER BY id")
	events, err := sqldb.Scan(rows, err, func(text *string, scan func(...any) error) error { return scan(text) })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range events {
		r, err := stream.Decode(stream.TopicUploads, drive.AccountID{}, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if r.Subject != id.String() {
			continue
		}
		types, last = append(types, string(r.Type)), nil
		if err := json.Unmarshal(r.Data, &last); err != nil {
			t.Fatal(err)
		}
	}
	return types, last
}

// Each transition is published in its own transaction.
func TestEveryTransitionIsPublished(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{PartSize: drive.MiB}})
	who, data := s.Account(t, 0), random(2*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	for n := range 2 {
		s.AdvanceAndFire(t, time.Minute)
		wantState(t, s, v, "parked")
		if err := s.Send(t, who, v, n, data); err != nil {
			t.Fatal(err)
		}
	}
	complete(t, s, who, v)
	types, last := publishedRecords(t, s, v.ID)
	want := []string{"upload.begun", "upload.parked", "upload.resumed", "upload.parked", "upload.resumed", "upload.done"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Error(diff)
	}
	if last["size"] != float64(2*mib) || last["node"] == nil {
		t.Errorf("the last one says %v", last)
	}

	lost := s.Start(t, who, "/g", -1)
	if err := s.Send(t, who, lost, 0, data[:1]); err != nil {
		t.Fatal(err)
	}
	s.AdvanceAndFire(t, time.Minute)
	types, last = publishedRecords(t, s, lost.ID)
	if !slices.Equal(types, want[:2]) || last["size"] != nil || last["held"] == nil || last["node"] != nil {
		t.Errorf("of one whose size is not known: %v, %v", types, last)
	}
	if err := s.Cancel(t.Context(), who, lost.ID); err != nil {
		t.Fatal(err)
	}
	if types, last = publishedRecords(t, s, lost.ID); !slices.Equal(types, []string{"upload.begun", "upload.parked", "upload.gone"}) || last["reason"] != "cancelled" {
		t.Errorf("of one that was cancelled: %v, %v", types, last)
	}
}

// A failed transition is not published: here a resume beyond the quota.
func TestFailedTransitionIsNotPublished(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{PartSize: drive.MiB}})
	who, data := s.Account(t, 3*drive.MiB), random(2*mib)
	v := s.Start(t, who, "/f", drive.ByteSize(len(data)))
	s.AdvanceAndFire(t, time.Minute)
	s.Start(t, who, "/g", 2*drive.MiB)
	wantKind(t, s.Send(t, who, v, 0, data), drive.Quota)
	if types, _ := publishedRecords(t, s, v.ID); !slices.Equal(types, []string{"upload.begun", "upload.parked"}) {
		t.Errorf("%v", types)
	}
}
