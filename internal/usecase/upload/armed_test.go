package upload_test

import (
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// If the client disconnects between commit and timer, the upload is still parked.
func TestDisconnectedClientLeavesTimer(t *testing.T) {
	t.Parallel()
	s, fate := siteUnderFate(t)
	who := s.Account(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	fate.Set(uploadtest.Rule{Point: "timers.Arm", N: 1, Effect: uploadtest.RunBefore, Do: cancel})
	v, err := s.Begin(ctx, who, upload.Begin{Path: uploadtest.Path(t, "/f"), Size: 3 * drive.MiB}, nil)
	if err != nil || !fate.Clear() {
		t.Fatalf("begin: %v", err)
	}
	s.AdvanceAndFire(t, time.Minute)
	wantState(t, s, v, "parked")
}
