package client

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
	"example.org/smartdrive/internal/testkit/disktest"
)

// After a power failure, every file of a finished download has its name and content, whether synced
// together or individually.
func TestReceivedFilesSurvivePowerLoss(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"together": 2 * minFilesystemSync, "one by one": minFilesystemSync - 1, "what is there is kept": minFilesystemSync} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keep := name == "what is there is kept" // which is synced, whatever is asked for
			disk := disktest.New(t, "4096")
			s := clienttest.New(t)
			s.EnableBatches(true)
			at := func(i int) string { return fmt.Sprintf("t/%d/%d", i%3, i) }
			for i := range n {
				s.Store("/"+at(i), randomBytes(uint64(i), 5000), mtime)
			}
			d, err := newClient(t, s).Downloader(DownloadOptions{RetryFor: 20 * time.Second, NoSync: keep})
			if err != nil {
				t.Fatal(err)
			}
			sum, err := d.GetTree(t.Context(), "/t", filepath.Join(disk.Root, "t"), TreeOptions{Keep: keep})
			if err != nil || sum.Received != n {
				t.Fatalf("%+v, %v", sum, err)
			}
			after := disk.CutPower(t)
			defer after.Unmount(t)
			for i := range n {
				if got, err := os.ReadFile(filepath.Join(after.Root, at(i))); err != nil || !bytes.Equal(got, randomBytes(uint64(i), 5000)) {
					t.Errorf("%s: %d bytes, %v, or they differ", at(i), len(got), err)
				}
			}
		})
	}
}

// After a power failure without syncs, downloading again repairs the tree, and no incomplete file
// counts as complete.
func TestUnsyncedFilesAreRefetched(t *testing.T) {
	t.Parallel()
	disk := disktest.New(t, "4096")
	s := clienttest.New(t)
	s.EnableBatches(true)
	const n = 2 * minFilesystemSync
	at := func(i int) string { return fmt.Sprintf("t/%d/%d", i%3, i) }
	for i := range n {
		s.Store("/"+at(i), randomBytes(uint64(i), 5000), mtime)
	}
	d, err := newClient(t, s).Downloader(DownloadOptions{RetryFor: 20 * time.Second, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	get := func(root string) Summary {
		sum, err := d.GetTree(t.Context(), "/t", filepath.Join(root, "t"), TreeOptions{SkipSame: true})
		if err != nil || sum.Received+sum.Skipped != n {
			t.Fatalf("%+v, %v", sum, err)
		}
		return sum
	}
	get(disk.Root)
	after := disk.CutPower(t)
	defer after.Unmount(t)
	if sum := get(after.Root); sum.Received == 0 {
		t.Error("all of it was synced")
	}
	for i := range n {
		if got, err := os.ReadFile(filepath.Join(after.Root, at(i))); err != nil || !bytes.Equal(got, randomBytes(uint64(i), 5000)) {
			t.Errorf("%s: %d bytes, %v, or they differ", at(i), len(got), err)
		}
	}
}
