package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/wholesync"
	"example.org/smartdrive/internal/engine/blob/local/pack"
	"example.org/smartdrive/internal/engine/blob/local/wal"
)

// Durability is the kind of failure that an accepted part survives.
type Durability uint8

// The durabilities.
const (
	DurabilityProcess Durability = iota // survives the end of the process; after a power loss parts are verified and may be missing
	DurabilityPart                      // survives a power loss: part and journal are synced before the part is acknowledged
)

// Options configure Open. The zero value of a field selects its default.
type Options struct {
	// Dir is the directory for everything. Open makes it if it is missing, but not its parent.
	Dir string
	// Durability of accepted parts. Sealed content is always durable. Default: Process.
	Durability Durability
	// BufferMemory bounds the large buffers of all running writes, in bytes. Default: 8 MiB.
	BufferMemory drive.ByteSize
	// DirtyLimit is the number of written but unflushed bytes of one upload from which on its
	// Writes wait for the disk. Default: 64 MiB.
	DirtyLimit drive.ByteSize
	// BootID identifies the current boot of the machine. Default: the system's boot id; without
	// one, every Open counts as a new boot, and unsynced parts are verified after each restart.
	BootID string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives warnings that no caller can be told. Default: slog.Default.
	Log *slog.Logger
}

// setDefaults replaces zero values by their defaults.
func (o *Options) setDefaults() {
	if o.BufferMemory <= 0 {
		o.BufferMemory = 8 * drive.MiB
	}
	if o.DirtyLimit <= 0 {
		o.DirtyLimit = 64 * drive.MiB
	}
	if o.BootID == "" {
		o.BootID = bootID()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
}

// Dir is an open directory with its Store, Staging and Quarantine. The caller must hold the lock
// that keeps other processes out of the directory.
type Dir struct {
	Blobs      *Store
	Staging    *Staging
	Quarantine *Quarantine

	root           string
	durability     Durability
	dirtyLimit     int64
	boot           [16]byte
	now            func() time.Time
	log            *slog.Logger
	buffers        *buffers
	flushers       sync.WaitGroup // running write-backs
	noSharing      atomic.Bool    // set when the file system cannot share bytes between files
	shards         [256]shardDir
	fs             fsSync // syncs the whole file system
	packs          *pack.Packs
	wal            *wal.Log
	pendingSyncs   atomic.Int32 // new files that wait for a sync
	syncCoversName bool         // syncing a new file also makes its name durable
	usePacks       bool         // freed blocks of a file are reusable at once, so small contents are stored in packs
}

// Open makes missing directories, checks that staging and blobs are on one file system, and replays
// the write-ahead log. The caller must Close the Dir.
func Open(ctx context.Context, o Options) (*Dir, error) {
	o.setDefaults()
	d := &Dir{
		root: o.Dir, durability: o.Durability, dirtyLimit: int64(o.DirtyLimit), boot: parseBootID(o.BootID), now: o.Now, log: o.Log,
		buffers: newBuffers(int64(o.BufferMemory)),
	}
	d.Blobs = &Store{d}
	d.Quarantine = &Quarantine{filepath.Join(o.Dir, quarantineDir)}
	d.Staging = &Staging{d: d, uploads: make(map[drive.UploadID]*upload)}
	if err := d.makeDirs(ctx); err != nil {
		return nil, err
	}
	if err := d.probe(); err != nil {
		return nil, err
	}
	if err := d.fs.open(filepath.Join(d.root, blobsDir)); err != nil { // blobs may be a link to another disk
		return nil, fmt.Errorf("open %s: %w", blobsDir, err)
	}
	d.syncCoversName = syncsNames(d.fs.dir)
	d.usePacks = canPack(d.fs.dir)
	d.packs = pack.New(packDisk{d}, d.log)
	var err error
	if d.wal, err = wal.Open(filepath.Join(d.root, walDir), walContents{d}, d.log); err != nil {
		return nil, errors.Join(err, d.fs.close())
	}
	return d, nil
}

// Close waits for running write-back and closes the packs and the log. No other method may be
// running or called later.
func (d *Dir) Close() error {
	d.Staging.stopAll()
	d.flushers.Wait()
	return errors.Join(d.packs.Close(), d.wal.Close(), d.fs.close())
}

// makeDirs makes the root and the directories staging, blobs and quarantine, where they are
// missing, and makes their names durable. The parent of the root must exist. It stops if ctx ends.
func (d *Dir) makeDirs(ctx context.Context) error {
	dirs := []string{d.root}
	for _, name := range []string{stagingDir, blobsDir, quarantineDir} {
		dirs = append(dirs, filepath.Join(d.root, name))
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make %s: %w", dir, classify(err))
		}
	}
	return syncDirs(d.root, filepath.Dir(d.root))
}

// shardDir is the state of one of the 256 directories below blobs.
type shardDir struct {
	mu      sync.Mutex
	durable bool // the directory exists durably

	syncs wholesync.Shared // syncs of the directory
}

// makeShard durably makes the parent directory of path, a shard, when this process first uses it.
// Making all 256 in Open would slow down every start. An existing directory may not be durable yet,
// so it is synced too.
func (d *Dir) makeShard(path string) error {
	dir := filepath.Dir(path)
	s := &d.shards[shardIndex(filepath.Base(dir))]
	s.mu.Lock() // held across I/O, at most 256 times per process
	defer s.mu.Unlock()
	if s.durable {
		return nil
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", classify(err))
	}
	if err := syncDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	s.durable = true
	return nil
}

// syncShard makes the entries of a shard durable. Concurrent callers share the next sync, which
// begins after all of them have made their entries.
func (d *Dir) syncShard(dir string) error {
	return d.shards[shardIndex(filepath.Base(dir))].syncs.Do(func() error { return syncDir(dir) })
}

// probeFile is used by Open to test a rename. A crash may leave it; the next Open overwrites it.
const probeFile = ".probe"

// probe renames a file from the staging directory to the content directory and fails if that is
// impossible: a seal renames, so both directories must be on one file system.
func (d *Dir) probe() error {
	from, to := filepath.Join(d.root, stagingDir, probeFile), filepath.Join(d.root, blobsDir, probeFile)
	if err := os.WriteFile(from, nil, fileMode); err != nil {
		return fmt.Errorf("blobs directory cannot be written: %w", classify(err))
	}
	if err := os.Rename(from, to); err != nil {
		_ = os.Remove(from)
		return fmt.Errorf("staging and blobs in %s must be on one file system: %w", d.root, err)
	}
	return os.Remove(to)
}

// classify wraps an error of the operating system with its kind: NotFound, DiskFull, or Unavailable
// for lacking permission. Other errors, nil and drive.Errors stay as they are.
func classify(err error) error {
	var known *drive.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return drive.Wrap(err, drive.NotFound)
	case isFull(err):
		return drive.Wrap(err, drive.DiskFull)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return drive.Wrap(err, drive.Unavailable, "reason", "store-unwritable")
	}
	return err
}

// CheckWritable returns an error that names the first directory below root that this process cannot
// write, because it belongs to another user or is mounted read-only.
func CheckWritable(root string) error {
	for _, dir := range []string{blobsDir, stagingDir} {
		path := filepath.Join(root, dir)
		if err := checkWritable(path); err != nil {
			return fmt.Errorf("%s cannot be written: %w", path, err)
		}
	}
	return nil
}

// syncPath opens an existing file and makes its bytes and length durable, but not its name.
func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(syncData(f), f.Close())
}

// syncDirs makes the entries of directories durable, in the given order.
func syncDirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("sync directory: %w", classify(err))
		}
	}
	return nil
}
