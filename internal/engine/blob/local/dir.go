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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/wholesync"
	"smartdrive/internal/engine/blob/local/pack"
	"smartdrive/internal/engine/blob/local/wal"
)

// Durability says what an accepted part survives.
type Durability uint8

// The durabilities.
const (
	Process Durability = iota // the end of the process; after a power loss parts are checked and may be missing again
	Part                      // power loss: an fdatasync of the part and of the journal before the part is acknowledged
)

// Options configure Open. The zero value of each field is its default.
type Options struct {
	// Dir holds everything; it is made if it is missing (its parent is not).
	Dir string
	// Durability of accepted parts; what is sealed is always durable.
	Durability Durability
	// BufferMemory bounds the large buffers of all running writes, in bytes. Default 16 MiB.
	BufferMemory drive.ByteSize
	// DirtyLimit is how many bytes of one upload may wait for the disk before its Writes wait too.
	// Default 64 MiB.
	DirtyLimit drive.ByteSize
	// BootID names the run of the machine. Default: what the system says; where it says nothing,
	// every Open counts as another boot, and unsynced parts are checked after each restart.
	BootID string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log receives what no caller can be told. Default slog.Default.
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	if o.BufferMemory <= 0 {
		o.BufferMemory = 16 * drive.MiB
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

// Dir is an open directory with both ports over it. The caller holds the lock that makes this
// process the only one in it.
type Dir struct {
	Blobs      *Store
	Staging    *Staging
	Quarantine *Quarantine

	root       string
	durability Durability
	dirtyLimit int64
	boot       [16]byte
	now        func() time.Time
	log        *slog.Logger
	buffers    *buffers
	flushers   sync.WaitGroup
	unshared   atomic.Bool // the file system cannot share bytes between files
	shards     [256]shard
	whole      wholeSync
	packs      *pack.Packs
	wal        *wal.Log
	syncing    atomic.Int32 // new files that wait for the disk
	named      bool         // a sync of a new content makes its name durable, too
	packing    bool         // what is freed of a file can be used at once: small contents lie in packs
}

// Open makes the directories that are missing and checks that sealing can be a rename.
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
	if err := d.whole.open(filepath.Join(d.root, blobsDir)); err != nil { // which may be a link to another disk
		return nil, fmt.Errorf("open %s: %w", blobsDir, err)
	}
	d.named = syncsNames(d.whole.dir)
	d.packing = canPack(d.whole.dir)
	d.packs = pack.New(packed{d}, d.log)
	var err error
	if d.wal, err = wal.Open(filepath.Join(d.root, walDir), logged{d}, d.log); err != nil {
		return nil, errors.Join(err, d.whole.close())
	}
	return d, nil
}

// Close waits for the write-back that is running. No call may be in a port any more.
func (d *Dir) Close() error {
	d.Staging.stopAll()
	d.flushers.Wait()
	return errors.Join(d.packs.Close(), d.wal.Close(), d.whole.close())
}

// makeDirs makes what everything else lies in.
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

// shard is one of the 256 directories below blobs, as this process knows it.
type shard struct {
	mu    sync.Mutex
	ready bool

	syncing wholesync.Shared
}

// makeShard makes the directory that a name in it needs, durably, on its first use by this process:
// made by Open, 256 directories would slow down every start. Whoever finds it there already must
// still know that it is durable.
func (d *Dir) makeShard(path string) error {
	dir := filepath.Dir(path)
	s := &d.shards[shardIndex(filepath.Base(dir))]
	s.mu.Lock() // held across I/O, 256 times in the life of the process
	defer s.mu.Unlock()
	if s.ready {
		return nil
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", classify(err))
	}
	if err := syncDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// syncShard makes the entries of a directory of blobs durable. Who comes while a sync runs shares
// the next one: that begins after all of them have made their entries.
func (d *Dir) syncShard(dir string) error {
	return d.shards[shardIndex(filepath.Base(dir))].syncing.Do(func() error { return syncDir(dir) })
}

// probeFile is made, moved and removed by Open; a crash may leave it, then the next Open overwrites
// it.
const probeFile = ".probe"

// probe moves a file the way Seal does: nothing else tells for sure whether two directories are on
// one file system.
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

// classify translates errors of the operating system. It is applied where they come in.
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

// Writable returns an error that says which directory of the contents below root cannot be written,
// if there is one: it belongs to another user, or its file system is mounted read-only.
func Writable(root string) error {
	for _, dir := range []string{blobsDir, stagingDir} {
		path := filepath.Join(root, dir)
		if err := mayWrite(path); err != nil {
			return fmt.Errorf("%s cannot be written: %w", path, err)
		}
	}
	return nil
}

// syncPath makes the content of a file durable.
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
