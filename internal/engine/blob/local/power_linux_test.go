package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/disktest"
)

// TestAcknowledgedContentSurvivesPowerLoss cuts the power while contents are stored in several ways
// in a few directories.
func TestAcknowledgedContentSurvivesPowerLoss(t *testing.T) {
	t.Parallel()
	for _, block := range []string{"1024", "4096"} { // the smaller they are, the more often directories grow
		t.Run(block, func(t *testing.T) {
			t.Parallel()
			disk := disktest.New(t, block)
			d := openTestDir(t, func(o *Options) { o.Dir = filepath.Join(disk.Root, "data") })
			if !d.syncCoversName {
				t.Error("an ext4 with a journal was not recognized: the directories are synced")
			}
			for range depth.Pick(1, 1, 5) { // the log of small contents takes a part of the disk each time
				losePower(t, d, disk) // those that come together share a sync
			}
			d.fs.supported = false // as elsewhere: each file is synced
			losePower(t, d, disk)
			d.syncCoversName = false // and directories are
			losePower(t, d, disk)
		})
	}
}

// TestRestoreOnDiskFilledAfterPowerLoss fills the disk between the power loss and the start, which
// must still have room to restore the files of the log.
func TestRestoreOnDiskFilledAfterPowerLoss(t *testing.T) {
	t.Parallel()
	disk := disktest.New(t, "4096")
	d := openTestDir(t, func(o *Options) { o.Dir = filepath.Join(disk.Root, "data") })
	var store acknowledged
	for _, size := range []int{10_000, 1} { // one takes as many blocks as it has bytes
		store.size = size
		store.add(t, 400, func(name string, body blob.Body) error {
			_, err := d.Blobs.PutUnsynced(t.Context(), name, body, false)
			return err
		}, func(names []string) error { return d.Blobs.Sync(t.Context(), names) })
	}
	there := disk.CutPower(t)
	defer there.Unmount(t)
	fillUp(t, there.Root)
	after, err := Open(t.Context(), Options{Dir: filepath.Join(there.Root, "data"), Log: d.log})
	noError(t, err)
	defer func() { noError(t, after.Close()) }() // before the unmount
	hasAll(t, after, store.snapshot())
	noError(t, os.Remove(filepath.Join(there.Root, "fill")))
	store.add(t, 1, func(name string, body blob.Body) error {
		_, err := after.Blobs.Put(t.Context(), name, body)
		return err
	}, nil)
}

func hasAll(t *testing.T, d *Dir, want map[string][]byte) {
	t.Helper()
	for name, b := range want {
		o, err := d.Blobs.Open(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(io.NewSectionReader(o, 0, 1<<20))
		if err = errors.Join(err, o.Close()); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(b))
		}
	}
}

// losePower cuts the power when half of the contents are acknowledged.
func losePower(t *testing.T, d *Dir, disk *disktest.Disk) {
	t.Helper()
	store := acknowledged{size: 10_000}
	var early, all sync.WaitGroup
	for writer := range 16 {
		put := func() {
			for range 8 {
				store.add(t, 1, func(name string, body blob.Body) error {
					_, err := d.Blobs.Put(t.Context(), name, body)
					return err
				}, nil)
			}
		}
		if writer < 8 {
			early.Go(put)
		} else {
			all.Go(put)
		}
	}
	packed := acknowledged{size: 10_000, name: d.Blobs.ReserveName}
	for range 16 {
		early.Go(func() {
			for range 8 {
				packed.add(t, 4, func(name string, body blob.Body) error {
					_, err := d.Blobs.PutUnsynced(t.Context(), name, body, false)
					return err
				}, func(names []string) error { return d.Blobs.Sync(t.Context(), names) })
			}
		})
	}
	for _, n := range []int{10, fsSyncMinBatch} {
		for _, many := range []bool{false, true} { // by the log; by their own syncs, and by one of the whole
			lay := func(name string, body blob.Body) error {
				_, err := d.Blobs.PutUnsynced(t.Context(), name, body, many)
				return err
			}
			early.Go(func() { store.add(t, n, lay, func(names []string) error { return d.Blobs.Sync(t.Context(), names) }) })
		}
	}
	early.Wait()
	want := store.snapshot()
	there := disk.CutPower(t)
	defer there.Unmount(t)
	after, err := Open(t.Context(), Options{Dir: filepath.Join(there.Root, "data"), Log: d.log})
	noError(t, err)
	defer func() { noError(t, after.Close()) }() // before the unmount
	hasAll(t, after, want)
	hasAll(t, after, packed.snapshot())
	all.Wait()
	for _, a := range []*acknowledged{&store, &packed} { // the disk is small
		names := slices.Collect(maps.Keys(a.snapshot()))
		gone, err := d.Blobs.RemoveAll(t.Context(), names)
		if noError(t, err); len(gone) != len(names) {
			t.Errorf("%d of %d are gone", len(gone), len(names))
		}
	}
}

// acknowledged records the contents that the store has acknowledged.
type acknowledged struct {
	size int                                          // bytes of each
	name func(own string, size drive.ByteSize) string // nil: each has its own

	mu   sync.Mutex
	made uint64
	of   map[string][]byte // by name
}

// add stores n contents and settles them; nil: they are durable when store returns.
func (a *acknowledged) add(t *testing.T, n int, store func(name string, body blob.Body) error, settle func(names []string) error) {
	added := map[string][]byte{}
	for range n {
		id := drive.NewID[drive.UploadID]()
		a.mu.Lock()
		a.made++
		id[len(id)-1] = byte(a.made % 3)
		b := blobtest.Bytes(a.made, drive.ByteSize(a.size))
		a.mu.Unlock()
		name := fmt.Sprintf("put-1-%s", id)
		if a.name != nil {
			name = a.name(name, drive.ByteSize(a.size))
		}
		if err := store(name, blob.NewBody(bytes.NewReader(b), blob.BodyOptions{Size: drive.ByteSize(len(b))})); err != nil {
			t.Error(err)
			return
		}
		added[name] = b
	}
	if settle != nil {
		if err := settle(slices.Collect(maps.Keys(added))); err != nil {
			t.Error(err)
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string][]byte{}
	}
	maps.Copy(a.of, added)
}

func (a *acknowledged) snapshot() map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.of)
}
