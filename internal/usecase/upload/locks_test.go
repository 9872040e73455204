package upload_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// heldFence is a staging whose next Fence blocks until gate is closed.
type heldFence struct {
	blob.Staging
	gate atomic.Pointer[chan struct{}]
	in   chan struct{}
}

func (s *heldFence) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	if gate := s.gate.Swap(nil); gate != nil {
		close(s.in)
		<-*gate
	}
	return s.Staging.Fence(ctx, ref, gen)
}

// While a park holds the state lock, concurrent Offset, DeclareSize and Complete requests do not
// deadlock, and the upload continues.
func TestRequestsDuringParkEnd(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(s *uploadtest.Site, ctx context.Context, who drive.Who, id drive.UploadID) error{
		"declare": func(s *uploadtest.Site, ctx context.Context, who drive.Who, id drive.UploadID) error {
			return s.DeclareSize(ctx, who, id, 1000)
		},
		"append": func(s *uploadtest.Site, ctx context.Context, who drive.Who, id drive.UploadID) error {
			_, err := s.Append(ctx, who, id, upload.Append{Offset: 1000, Size: 0, Last: true}, emptyBody{})
			return err
		},
		"concat": func(s *uploadtest.Site, ctx context.Context, who drive.Who, id drive.UploadID) error {
			b := upload.Begin{Path: drive.Path{"f"}, Protocol: upload.Tus}
			if err := s.DeclareSize(ctx, who, id, 1000); err != nil {
				return err
			}
			_, err := s.Concat(ctx, who, b, []drive.UploadID{id}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := &heldFence{in: make(chan struct{})}
			s := uploadtest.New(t, uploadtest.Options{Staging: func(in blob.Staging) blob.Staging { slow.Staging = in; return slow }})
			who := s.Account(t, 0)
			v, err := s.Begin(t.Context(), who, upload.Begin{Kind: upload.Partial, Protocol: upload.Tus, Size: blob.UnknownSize}, nil)
			if err != nil {
				t.Fatal(err)
			}
			add(t, s.Sessions, who, v.ID, 0, random(1000))
			gate := make(chan struct{})
			slow.gate.Store(&gate)
			var all sync.WaitGroup
			s.Clock.Advance(31 * time.Second)
			all.Go(func() { s.Fire(t) })
			<-slow.in
			for range 4 {
				all.Go(func() {
					if _, err := s.Offset(t.Context(), who, v.ID); err != nil && !drive.IsKind(err, drive.InProgress) {
						t.Errorf("offset: %v", err)
					}
				})
			}
			all.Go(func() {
				if err := act(s, t.Context(), who, v.ID); err != nil && !drive.IsKind(err, drive.InProgress) {
					t.Errorf("%s: %v", name, err)
				}
			})
			close(gate)
			all.Wait()
			if err := act(s, t.Context(), who, v.ID); err != nil && !drive.IsKind(err, drive.Gone) { // concat has ended it
				t.Errorf("%s, once more: %v", name, err)
			}
			s.CheckLedger(t, who)
		})
	}
}

// emptyBody is a body without bytes.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
