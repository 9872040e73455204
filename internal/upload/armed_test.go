package upload_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"smartdrive/internal/drive"
	"smartdrive/internal/upload"
	"smartdrive/internal/upload/uploadtest"
)

// The transaction that releases bytes has ended when the timer is armed that deletes them, and its context with it.
func TestWhatIsReleasedIsDeletedAfterTheGrace(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(100)
	for _, path := range []string{"/one", "/same"} {
		p := upload.PutFile{Path: uploadtest.Path(t, path), Size: 100}
		if _, _, err := s.PutFile(t.Context(), who, p, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Queue.Show(t.Context(), upload.UnlinkKey); err != nil {
		t.Errorf("the second file was one too many, and no timer deletes it: %v", err)
	}
}

// A client that goes away between the commit and the timer leaves an upload that is parked like any other.
func TestAClientThatGoesAwayLeavesATimer(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	who := s.Account(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	fate.Set(uploadtest.Rule{Point: "timers.Arm", N: 1, How: uploadtest.Meanwhile, Do: cancel})
	v, err := s.Begin(ctx, who, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: 3 * drive.MiB}, nil)
	if err != nil || !fate.Clear() {
		t.Fatalf("begin: %v", err)
	}
	s.Pass(t, time.Minute)
	wantState(t, s, v, "parked")
}
