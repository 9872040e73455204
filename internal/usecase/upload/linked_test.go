package upload_test

import (
	"bytes"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// An upload linked by begin can be queried like any done upload.
func TestLinkedUploadCanBeQueried(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	data := random(3 * mib)
	ann, size := owner(t, s, data), drive.ByteSize(len(data))
	b := upload.Begin{Path: uploadtest.Path(t, "/again"), Size: size, Digests: blake(data), Protocol: upload.ResumableDraft, Metadata: "m"}
	v, err := s.Begin(t.Context(), ann, b, nil)
	if err != nil || v.State != "done" || v.Node == nil {
		t.Fatalf("it is %s, %v", v.State, err)
	}
	if got, err := s.Get(t.Context(), ann, v.ID); err != nil || got.State != "done" || got.Node == nil || got.Node.ID != v.Node.ID {
		t.Errorf("asked for it is %s, %v", got.State, err)
	}
	done, created, err := s.Complete(t.Context(), ann, v.ID, upload.Complete{})
	if err != nil || created || done.Node == nil || done.Node.ID != v.Node.ID {
		t.Errorf("completed it is %s, created %v, %v", done.State, created, err)
	}
	pos, err := s.Offset(t.Context(), ann, v.ID)
	if err != nil || pos.Offset != size || pos.State != upload.Done || pos.Protocol != upload.ResumableDraft || pos.Metadata != "m" || pos.Node != v.Node.ID {
		t.Errorf("its position is %+v, %v", pos, err)
	}
	if err := s.Cancel(t.Context(), ann, v.ID); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := s.Get(t.Context(), s.Account(t, 0), v.ID); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("somebody else asks: %v", err)
	}
	if !bytes.Equal(s.Read(t, ann, "/again"), data) {
		t.Error("it has other bytes")
	}
	var records int
	if err := s.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM outbox WHERE event LIKE ?", "%"+v.ID.String()+"%").Scan(&records); err != nil || records != 1 {
		t.Errorf("%d records tell of it, %v", records, err)
	}
	s.CheckLedger(t, ann)
	if left := append(s.Staged(t), s.CheckBlobs(t)...); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
