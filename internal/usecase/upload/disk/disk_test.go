package disk_test

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// boundedStore is a store on a disk with a fixed number of free bytes.
type boundedStore struct {
	blob.Store
	free drive.ByteSize
}

func (m boundedStore) Caps() blob.StoreCaps { return blob.StoreCaps{ReportsFree: true} }

func (m boundedStore) Free(context.Context) (drive.ByteSize, error) { return m.free, nil }

func TestRoom(t *testing.T) {
	t.Parallel()
	p := disk.New(boundedStore{free: 110}, 10, nil)
	room := p.NewReservation(drive.NewID[drive.AccountID]())
	want := func(after string, bytes drive.ByteSize) {
		t.Helper()
		if total, _ := p.Total(); total != bytes {
			t.Errorf("after %s: %d bytes are promised, not %d", after, total, bytes)
		}
	}
	if err := room.Resize(t.Context(), 101); !drive.IsKind(err, drive.DiskFull) {
		t.Errorf("more than is free: %v", err)
	}
	want("a refusal", 0)
	for _, n := range []drive.ByteSize{40, 100, 70} {
		if err := room.Resize(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		want("holding", n)
	}
	room.Release(30)
	want("using some", 40)
	room.Close()
	want("closing", 0)
	room.Close()
	want("closing twice", 0)
	if _, accounts := p.Total(); accounts != 0 {
		t.Errorf("%d accounts have promises of nothing", accounts)
	}
}

// While the database's disk is full nothing is promised, not even for empty files.
func TestNoPromiseWithoutDatabaseSpace(t *testing.T) {
	t.Parallel()
	full := true
	p := disk.New(boundedStore{free: 110}, 10, func() error {
		if full {
			return drive.Fail(drive.DiskFull)
		}
		return nil
	})
	account := drive.NewID[drive.AccountID]()
	for _, n := range []drive.ByteSize{0, 1} {
		if err := p.Reserve(t.Context(), account, n); !drive.IsKind(err, drive.DiskFull) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	full = false
	if err := p.Reserve(t.Context(), account, 1); err != nil {
		t.Errorf("when there is room: %v", err)
	}
	if total, _ := p.Total(); total != 1 {
		t.Errorf("%d bytes are promised", total)
	}
}
