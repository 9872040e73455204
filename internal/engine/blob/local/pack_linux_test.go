package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/local/pack"
	"example.org/smartdrive/internal/testkit/disktest"
)

// onDisk returns an option for a directory on a disk that supports packs.
func onDisk(t *testing.T) func(*Options) {
	disk := disktest.New(t, "4096")
	return func(o *Options) { o.Dir = filepath.Join(disk.Root, "data") }
}

// layContents stores n contents of size bytes in packs, and settles them.
func layContents(t *testing.T, d *Dir, n, size int) (names []string) {
	t.Helper()
	for i := range n {
		b := blobtest.Bytes(uint64(i), drive.ByteSize(size))
		name := d.Blobs.ReserveName(blobtest.PutName(), drive.ByteSize(size))
		if _, ok := blob.SlotOf(name); !ok {
			t.Fatalf("%s lies in no pack", name)
		}
		_, err := d.Blobs.PutUnsynced(t.Context(), name, blobtest.BodyOf(0, size, bytes.NewReader(b)), true)
		noError(t, err)
		names = append(names, name)
	}
	noError(t, d.Blobs.Sync(t.Context(), names))
	return names
}

func packsOf(t *testing.T, d *Dir) (paths []string, bytes int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(d.root, blobsDir, "??", "*.pack"))
	noError(t, err)
	for _, path := range paths {
		info, err := os.Stat(path)
		noError(t, err)
		bytes += allocated(info)
	}
	return paths, bytes
}

func contentOf(t *testing.T, s *Store, name string) []byte {
	t.Helper()
	o, err := s.Open(t.Context(), name)
	noError(t, err)
	b, err := io.ReadAll(io.NewSectionReader(o, 0, int64(o.Size())))
	noError(t, err)
	noError(t, o.Close())
	return b
}

// TestRemoveFromPackFreesBlocks removes contents one by one and all at once; the empty pack must
// disappear.
func TestRemoveFromPackFreesBlocks(t *testing.T) {
	t.Parallel()
	disk := disktest.New(t, "4096")
	root := filepath.Join(disk.Root, "data")
	d := openTestDir(t, func(o *Options) { o.Dir = root })
	names := layContents(t, d, 100, 10_000)
	_, all := packsOf(t, d)
	for i := 0; i < 50; i += 2 {
		noError(t, d.Blobs.Remove(t.Context(), names[i]))
	}
	const extents = 8 << 10 // that the file system writes down apart
	if _, left := packsOf(t, d); left > all*3/4+extents {
		t.Errorf("%d of %d bytes are left after a quarter was removed", left, all)
	}
	gone, err := d.Blobs.RemoveAll(t.Context(), names[50:])
	noError(t, err)
	if _, left := packsOf(t, d); len(gone) != 50 || left > all/4+extents {
		t.Errorf("%d are gone, and %d of %d bytes left", len(gone), left, all)
	}
	noError(t, d.Close())
	d, err = Open(t.Context(), Options{Dir: root, Log: d.log})
	noError(t, err)
	if got := contentOf(t, d.Blobs, names[1]); !bytes.Equal(got, blobtest.Bytes(1, 10_000)) {
		t.Errorf("%d bytes are read", len(got))
	}
	_, err = d.Blobs.RemoveAll(t.Context(), names)
	noError(t, err)
	if paths, _ := packsOf(t, d); len(paths) > 0 {
		t.Errorf("left are %v", paths)
	}
	noError(t, d.Close())
}

// barrierDisk is a disk on which removals of several packs wait for each other.
type barrierDisk struct {
	pack.Disk
	come  chan struct{}
	alone atomic.Bool // somebody has waited in vain
}

func (m *barrierDisk) SyncFreed(f *os.File) error {
	select {
	case m.come <- struct{}{}:
	case <-m.come:
	case <-time.After(10 * time.Second):
		m.alone.Store(true)
	}
	return m.Disk.SyncFreed(f)
}

// TestRemoveAllSyncsPacksConcurrently also checks that no removal begins after its context has
// ended.
func TestRemoveAllSyncsPacksConcurrently(t *testing.T) {
	t.Parallel()
	d := openTestDir(t, onDisk(t))
	disk := &barrierDisk{Disk: packDisk{d}, come: make(chan struct{})}
	var names []string
	for range 2 {
		names = append(names, layContents(t, d, 2, 100)[0])
		noError(t, d.packs.Close())
		d.packs = pack.New(disk, d.log)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if gone, err := d.Blobs.RemoveAll(ended, names); len(gone) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("gone are %v, %v", gone, err)
	}
	if gone, err := d.Blobs.RemoveAll(t.Context(), names); len(gone) != 2 || err != nil {
		t.Errorf("gone are %v, %v", gone, err)
	}
	if disk.alone.Load() {
		t.Error("a pack was synced after the other one")
	}
}

// TestPackOnFullDiskKeepsNothing checks that content on a full disk is DiskFull and leaves nothing.
func TestPackOnFullDiskKeepsNothing(t *testing.T) {
	t.Parallel()
	disk := disktest.New(t, "4096")
	d := openTestDir(t, func(o *Options) { o.Dir = filepath.Join(disk.Root, "data") })
	kept := layContents(t, d, 1, 10_000)[0]
	fillUp(t, disk.Root)
	for range 3 {
		name := d.Blobs.ReserveName(blobtest.PutName(), 30_000)
		_, err := d.Blobs.PutUnsynced(t.Context(), name, blobtest.BodyOf(0, 30_000, bytes.NewReader(make([]byte, 30_000))), false)
		if !drive.IsKind(err, drive.DiskFull) {
			t.Errorf("laid: %v", err)
		}
		if _, err := d.Blobs.Stat(t.Context(), name); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("something is left: %v", err)
		}
		noError(t, d.Blobs.Remove(t.Context(), name))
	}
	noError(t, os.Remove(filepath.Join(disk.Root, "fill")))
	layContents(t, d, 10, 30_000)
	if got := contentOf(t, d.Blobs, kept); !bytes.Equal(got, blobtest.Bytes(0, 10_000)) {
		t.Errorf("%d bytes are read", len(got))
	}
}

// TestForeignSlotNameBecomesFile checks that content with the slot name of another store is stored
// as a file.
func TestForeignSlotNameBecomesFile(t *testing.T) {
	t.Parallel()
	from, to := openTestDir(t, onDisk(t)), openTestDir(t, onDisk(t))
	names := layContents(t, from, 3, 10_000)
	for i, name := range names[:2] {
		body := blobtest.BodyOf(0, 10_000, bytes.NewReader(contentOf(t, from.Blobs, name)))
		var err error
		if i == 0 {
			_, err = to.Blobs.PutAtomic(t.Context(), name, body)
		} else {
			_, err = to.Blobs.PutUnsynced(t.Context(), name, body, true)
			noError(t, to.Blobs.Sync(t.Context(), []string{name}))
		}
		noError(t, err)
		if got := contentOf(t, to.Blobs, name); !bytes.Equal(got, blobtest.Bytes(uint64(i), 10_000)) {
			t.Errorf("%s has %d bytes", name, len(got))
		}
		for _, s := range []*Store{from.Blobs, to.Blobs} {
			if _, err := s.PutAtomic(t.Context(), name, blobtest.BodyOf(0, 1, bytes.NewReader([]byte("x")))); err == nil {
				t.Errorf("%s is received a second time", name)
			}
		}
	}
	if _, err := to.Blobs.Stat(t.Context(), names[2]); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("what did not come: %v", err)
	}
	var shown []string
	shard, _ := blob.ShardOf(names[0])
	page, more, err := to.Blobs.ListPage(t.Context(), shard, "", 10)
	noError(t, err)
	for _, s := range page {
		shown = append(shown, fmt.Sprint(s.Name, " ", int64(s.Size)))
	}
	if want := fmt.Sprint([]string{names[0] + " 10000", names[1] + " 10000"}); more || fmt.Sprint(shown) != want {
		t.Errorf("shown are %v, not %v", shown, want)
	}
	gone, err := to.Blobs.RemoveAll(t.Context(), names)
	noError(t, err)
	if files, err := filepath.Glob(filepath.Join(to.root, blobsDir, shard, "*")); len(gone) != 3 || len(files) > 0 || err != nil {
		t.Errorf("%d are gone, and there are %v", len(gone), files)
	}
}

// TestFileTakesPrecedenceOverSlot checks that a file replaces a damaged slot of the same name, and
// that both are removed together.
func TestFileTakesPrecedenceOverSlot(t *testing.T) {
	t.Parallel()
	d := openTestDir(t, onDisk(t))
	name := layContents(t, d, 1, 5000)[0]
	path, err := d.blobPath(name)
	noError(t, err)
	noError(t, os.WriteFile(path, []byte("from a backup"), 0o600))
	if got := contentOf(t, d.Blobs, name); string(got) != "from a backup" {
		t.Errorf("%d bytes are read", len(got))
	}
	if n, err := d.Blobs.Stat(t.Context(), name); n != 13 || err != nil {
		t.Errorf("it has %d bytes, %v", n, err)
	}
	shard, _ := blob.ShardOf(name)
	if page, _, err := d.Blobs.ListPage(t.Context(), shard, "", 10); len(page) != 1 || err != nil {
		t.Errorf("shown are %v, %v", page, err)
	}
	noError(t, d.Blobs.Remove(t.Context(), name))
	if _, err := d.Blobs.Stat(t.Context(), name); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("it is there: %v", err)
	}
}

// TestUnfreeableRangeIsZeroed checks that zeros are written on a disk that cannot free ranges.
func TestUnfreeableRangeIsZeroed(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	noError(t, err)
	_, err = f.WriteString("aabbcc")
	noError(t, err)
	noError(t, writeZeros(f, 2, 2))
	noError(t, writeZeros(f, 5, 100))
	noError(t, writeZeros(f, 50, 100))
	if b, err := os.ReadFile(f.Name()); err != nil || string(b) != "aa\x00\x00c\x00" {
		t.Errorf("%q, %v", b, err)
	}
	noError(t, f.Close())
}

// TestQuarantineOfSlotWritesFile checks that a quarantined slot becomes a file.
func TestQuarantineOfSlotWritesFile(t *testing.T) {
	t.Parallel()
	d := openTestDir(t, onDisk(t))
	names := layContents(t, d, 2, 5000)
	shard, _ := blob.ShardOf(names[0])
	noError(t, d.Blobs.Quarantine(t.Context(), blob.Entry{Path: blob.ShardPath(shard, names[0]), Name: names[0]}))
	files, err := filepath.Glob(filepath.Join(d.root, quarantineDir, "*", "*"))
	noError(t, err)
	if len(files) != 1 || filepath.Base(files[0]) != "blobs_"+shard+"_"+names[0] {
		t.Fatalf("there are %v", files)
	}
	if b, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(b, blobtest.Bytes(0, 5000)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if got := contentOf(t, d.Blobs, names[1]); !bytes.Equal(got, blobtest.Bytes(1, 5000)) {
		t.Errorf("the other one has %d bytes", len(got))
	}
}

// TestListPageMergesPacksAndFiles checks that pages of any size show everything once: contents of
// packs, files of the same names, and unexpected files.
func TestListPageMergesPacksAndFiles(t *testing.T) {
	t.Parallel()
	d := openTestDir(t, onDisk(t))
	names := layContents(t, d, 20, 5000)
	at, _ := blob.SlotOf(names[0])
	shard, _ := blob.ShardOf(at.Pack)
	want := map[string]drive.ByteSize{}
	for _, name := range names {
		want[blob.ShardPath(shard, name)] = 5000
	}
	for _, name := range []string{names[2], names[5], names[19], at.Pack, at.Pack + "-x", at.Pack + "!", at.Pack + ".x", at.Pack + ".pack.x", names[3] + ".pack", "a", "z"} {
		want[blob.ShardPath(shard, name)] = 3
		noError(t, os.WriteFile(d.abs(blob.ShardPath(shard, name)), []byte("abc"), 0o600))
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		shown, after, more := map[string]drive.ByteSize{}, "", true
		for more {
			var page []blob.Entry
			var err error
			page, more, err = d.Blobs.ListPage(t.Context(), shard, after, limit)
			noError(t, err)
			if len(page) > limit || len(page) == 0 && more {
				t.Fatalf("a page has %d entries, of at most %d", len(page), limit)
			}
			for _, s := range page {
				if s.Path <= after {
					t.Fatalf("%s comes after %s", s.Path, after)
				}
				after, shown[s.Path] = s.Path, s.Size
			}
		}
		if !maps.Equal(shown, want) {
			t.Errorf("pages of %d show %v, not %v", limit, shown, want)
		}
	}
}

// TestTruncatedPackKeepsRestOfLastContent checks that the rest of the last content is listed,
// quarantined and removed like a truncated file.
func TestTruncatedPackKeepsRestOfLastContent(t *testing.T) {
	t.Parallel()
	d := openTestDir(t, onDisk(t))
	const size, left = 9000, 4096 - pack.HeaderSize
	for _, remove := range []bool{false, true} {
		name := layContents(t, d, 1, size)[0]
		at, _ := blob.SlotOf(name)
		shard, _ := blob.ShardOf(name)
		path := d.abs(blob.ShardPath(shard, at.Pack+pack.Suffix))
		noError(t, os.Truncate(path, at.First*pack.Block+4096))
		if got := contentOf(t, d.Blobs, name); !bytes.Equal(got, blobtest.Bytes(0, size)[:left]) {
			t.Errorf("%d bytes are read", len(got))
		}
		if n, err := d.Blobs.Stat(t.Context(), name); n != left || err != nil {
			t.Errorf("it has %d bytes, %v", n, err)
		}
		page, _, err := d.Blobs.ListPage(t.Context(), shard, "", 10)
		if err != nil || len(page) != 1 || page[0].Size != left {
			t.Fatalf("shown are %v, %v", page, err)
		}
		if remove {
			noError(t, d.Blobs.Remove(t.Context(), name))
		} else {
			noError(t, d.Blobs.Quarantine(t.Context(), page[0]))
		}
		if page, _, err := d.Blobs.ListPage(t.Context(), shard, "", 10); len(page) > 0 || err != nil {
			t.Errorf("shown are %v, %v", page, err)
		}
	}
}
