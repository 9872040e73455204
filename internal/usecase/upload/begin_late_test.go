package upload_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// onceCommitted runs then after the commit of a begin and before Begin returns; a process may stall
// there.
func onceCommitted(then func()) upload.Once[upload.View] {
	return func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (upload.View, error)) (upload.View, error) {
		v, err := effect(ctx, tx)
		tx.AfterCommit(then)
		return v, err
	}
}

// Other requests find an upload from its commit on. Begin must not undo what they do before it
// returns.
func TestStalledBeginKeepsReceivedParts(t *testing.T) {
	t.Parallel()
	data := random(2*mib + 1000)
	for name, twin := range map[string]func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View){
		"a part": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
			if err := s.Send(t, who, v, 0, data); err != nil {
				t.Error(err)
			}
		},
		"a part, and it is parked": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
			if err := s.Send(t, who, v, 0, data); err != nil {
				t.Error(err)
			}
			s.AdvanceAndFire(t, time.Minute)
		},
		"a part, taken back and sent again": func(t *testing.T, s *uploadtest.Site, who drive.Who, v upload.View) {
			if err := s.Send(t, who, v, 0, data); err != nil {
				t.Error(err)
			}
			if err := s.DeletePart(t.Context(), who, v.ID, 0); err != nil {
				t.Error(err)
			}
			if err := s.Send(t, who, v, 0, data); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := uploadtest.New(t, uploadtest.Options{})
			who := s.Account(t, 0)
			b := upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.ByteSize(len(data)), Fingerprint: "x"}
			v, err := s.Begin(t.Context(), who, b, onceCommitted(func() {
				found, err := s.Begin(t.Context(), who, b, nil)
				if err != nil || !found.Found {
					t.Errorf("it was found: %v, %v", found.Found, err)
				}
				twin(t, s, who, found)
			}))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Get(t.Context(), who, v.ID); err != nil || len(got.Received) != 1 {
				t.Errorf("after the acknowledged part %v has come, %v", got.Received, err)
			}
			other := bytes.Clone(data)
			other[0] ^= 1
			if err := s.Send(t, who, v, 0, other); !drive.IsKind(err, drive.PartDiffers) {
				t.Errorf("other bytes in the place of an acknowledged part: %v", err)
			}
			if err := s.Send(t, who, v, 1, data); err != nil {
				t.Error(err)
			}
			if _, _, err := s.Complete(t.Context(), who, v.ID, upload.Complete{Digests: blake(data)}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.Read(t, who, "/f"), data) {
				t.Error("an acknowledged part was written over")
			}
			s.CheckLedger(t, who)
		})
	}
}

// An upload ended by another instance stays ended.
func TestStalledBeginRevivesNoEndedUpload(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who := s.Account(t, 0)
	b := upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.MiB, Fingerprint: "x"}
	v, err := s.Begin(t.Context(), who, b, onceCommitted(func() {
		found, err := s.Begin(t.Context(), who, b, nil)
		if err == nil {
			err = s.Cancel(t.Context(), who, found.ID)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), who, v.ID); !drive.IsKind(err, drive.Gone) {
		t.Errorf("it was cancelled: %v", err)
	}
	if got := s.Promised(); got != 0 {
		t.Errorf("%d bytes of the disk are promised to it", got)
	}
}

// A final upload that was found and sealed before Concat returns is sealed only once.
func TestStalledConcatSealsOnlyOnce(t *testing.T) {
	t.Parallel()
	s := uploadtest.New(t, uploadtest.Options{})
	who, data := s.Account(t, 0), random(3*mib)
	v, err := s.Begin(t.Context(), who, upload.Begin{Kind: upload.Partial, Protocol: upload.Tus, Size: 3 * drive.MiB}, nil)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s.Sessions, who, v.ID, 0, data)
	var final drive.UploadID
	b := upload.Begin{Path: uploadtest.Path(t, "/f"), Protocol: upload.Tus}
	once := func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (upload.View, error)) (upload.View, error) {
		v, err := effect(ctx, tx)
		tx.AfterCommit(func() {
			final = v.ID
			if done, _, err := s.Complete(t.Context(), who, final, upload.Complete{}); err != nil || done.State != "done" {
				t.Errorf("completed by a twin: %s, %v", done.State, err)
			}
		})
		return v, err
	}
	if _, err := s.Concat(t.Context(), who, b, []drive.UploadID{v.ID}, once); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	if done, created, err := s.Complete(t.Context(), who, final, upload.Complete{}); err != nil || done.State != "done" || created {
		t.Errorf("completed again: %s, created %v, %v", done.State, created, err)
	}
	if !bytes.Equal(s.Read(t, who, "/f"), data) {
		t.Error("it has other bytes")
	}
	s.CheckLedger(t, who)
}

// disconnectingClient is a staging whose client disconnects once the staging was created.
type disconnectingClient struct {
	blob.Staging
	cancel context.CancelFunc
}

func (h *disconnectingClient) Create(ctx context.Context, ref blob.Ref) error {
	err := h.Staging.Create(ctx, ref)
	if h.cancel != nil {
		h.cancel()
	}
	return err
}

// A client that disconnects before the transaction of a begin leaves no staging, because nobody is
// charged for it.
func TestDisconnectedBeginLeavesNothing(t *testing.T) {
	t.Parallel()
	h := &disconnectingClient{}
	s := uploadtest.New(t, uploadtest.Options{Staging: func(in blob.Staging) blob.Staging { h.Staging = in; return h }})
	who := s.Account(t, 0)
	var partials []drive.UploadID
	for range 2 {
		v, err := s.Begin(t.Context(), who, upload.Begin{Kind: upload.Partial, Protocol: upload.Tus, Size: 1000}, nil)
		if err != nil {
			t.Fatal(err)
		}
		add(t, s.Sessions, who, v.ID, 0, random(1000))
		partials = append(partials, v.ID)
	}
	b := upload.Begin{Path: uploadtest.Path(t, "/f"), Size: drive.MiB}
	for name, begin := range map[string]func(context.Context) (upload.View, error){
		"begin":         func(ctx context.Context) (upload.View, error) { return s.Begin(ctx, who, b, nil) },
		"concat of one": func(ctx context.Context) (upload.View, error) { return s.Concat(ctx, who, b, partials[:1], nil) },
		"concat of two": func(ctx context.Context) (upload.View, error) { return s.Concat(ctx, who, b, partials, nil) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		h.cancel = cancel
		if _, err := begin(ctx); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if left := s.Staged(t); len(left) > 0 {
			t.Errorf("%s: of no upload are %v", name, left)
		}
	}
	h.cancel = nil
	if got := s.Balance(t, who); got != "0/0/2000" {
		t.Errorf("the ledger says %s", got)
	}
	if _, err := s.Begin(t.Context(), who, b, nil); err != nil {
		t.Errorf("a client that stays: %v", err)
	}
	s.CheckLedger(t, who)
}
