package disk_test

import (
	"context"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/usecase/upload/disk"
)

// metered is a store on a disk with so much free.
type metered struct {
	blob.Store
	free drive.ByteSize
}

func (m metered) Caps() blob.StoreCaps { return blob.StoreCaps{Bounded: true} }

func (m metered) Free(context.Context) (drive.ByteSize, error) { return m.free, nil }

func TestRoom(t *testing.T) {
	t.Parallel()
	p := disk.New(metered{free: 110}, 10)
	room := p.Room(drive.NewID[drive.AccountID]())
	want := func(after string, bytes drive.ByteSize) {
		t.Helper()
		if total, _ := p.Promised(); total != bytes {
			t.Errorf("after %s: %d bytes are promised, not %d", after, total, bytes)
		}
	}
	if err := room.Hold(t.Context(), 101); !drive.IsKind(err, drive.DiskFull) {
		t.Errorf("more than is free: %v", err)
	}
	want("a refusal", 0)
	for _, n := range []drive.ByteSize{40, 100, 70} {
		if err := room.Hold(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		want("holding", n)
	}
	room.Use(30)
	want("using some", 40)
	room.Close()
	want("closing", 0)
	room.Close()
	want("closing twice", 0)
	if _, accounts := p.Promised(); accounts != 0 {
		t.Errorf("%d accounts have promises of nothing", accounts)
	}
}
