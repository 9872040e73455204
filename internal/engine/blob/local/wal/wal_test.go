package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/testkit/depth"
)

// smallLimits limits let a few contents fill a segment.
var smallLimits = limits{segment: 16 << 10, names: 20, growth: 4 << 10, spill: 3 << 10, age: defaultLimits.age}

// disk is a disk that can lose power: it records what is durable.
type disk struct {
	t   *testing.T
	dir string // of the log

	mu      sync.Mutex
	files   map[string]file
	synced  map[string][]byte // segments
	settles func() error      // nil: they succeed
	syncs   func() error      // the same, of segments
	full    int64             // bytes of a segment with which there is no room for contents; 0: there always is
}

// file is the file of a content, of which some may not be durable.
type file struct {
	content []byte
	durable bool
}

func newDisk(t *testing.T) *disk {
	return &disk{t: t, dir: filepath.Join(t.TempDir(), "wal"), files: map[string]file{}, synced: map[string][]byte{}}
}

func (d *disk) open() *Log {
	d.t.Helper()
	l, err := Open(d.dir, d, slog.New(slog.DiscardHandler))
	noError(d.t, err)
	l.limits = smallLimits
	return l
}

func (d *disk) Sync([]string) error {
	d.mu.Lock()
	before := maps.Clone(d.files)
	settles := d.settles
	d.mu.Unlock()
	if settles != nil {
		if err := settles(); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range before {
		if f, ok := d.files[name]; ok {
			f.durable = true
			d.files[name] = f
		}
	}
	return nil
}

func (d *disk) Restore(name string, content []byte) error {
	if info, err := os.Stat(segmentPath(d.dir, 0)); d.full > 0 && (err != nil || info.Size() >= d.full) {
		return drive.Fail(drive.DiskFull)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = file{content: bytes.Clone(content)}
	return nil
}

func (d *disk) SyncData(f *os.File) error {
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.syncs != nil {
		if err := d.syncs(); err != nil {
			return err
		}
	}
	d.synced[f.Name()] = b
	return nil
}

// Reserve extends the file, so that the reserved size is visible.
func (d *disk) Reserve(f *os.File, off, n int64) error { return f.Truncate(off + n) }

func (d *disk) SyncDir(string) error { return nil }

// put stores a content and reports whether the log has it.
func (d *disk) put(l *Log, name string, content []byte) bool {
	d.write(name, content)
	l.Add(name, content)
	if len(l.Sync(name)) == 0 {
		return true
	}
	d.sync(name)
	return false
}

// sync makes the file of a content durable.
func (d *disk) sync(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = file{d.files[name].content, true}
}

func (d *disk) write(name string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = file{content: content}
}

func (d *disk) remove(l *Log, name string) {
	d.mu.Lock()
	delete(d.files, name)
	d.mu.Unlock()
	noError(d.t, l.Discard(name))
}

// durable returns the durable content of the file or the log.
func (d *disk) durable(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[name].content
}

// powerLoss returns the disk after a power loss: any unsynced sectors may have been written.
func (d *disk) powerLoss(rng *rand.Rand) *disk {
	after := newDisk(d.t)
	noError(d.t, os.Mkdir(after.dir, 0o700))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range 2 {
		b, err := os.ReadFile(segmentPath(d.dir, i))
		if err != nil { // it was not made
			continue
		}
		synced := make([]byte, len(b))
		copy(synced, d.synced[segmentPath(d.dir, i)])
		const sector = 512
		for at := 0; at < len(b); at += sector {
			if rng.IntN(2) == 0 {
				end := min(at+sector, len(b))
				copy(b[at:end], synced[at:end])
			}
		}
		noError(d.t, os.WriteFile(segmentPath(after.dir, i), b, 0o600))
	}
	for name, f := range d.files {
		if f.durable {
			after.files[name] = f
		} else if rng.IntN(2) == 0 {
			after.files[name] = file{content: f.content[:rng.IntN(len(f.content)+1)]}
		}
	}
	return after
}

// TestPowerLossAtAnyTimeLosesNothing checks that acknowledged contents exist after a power loss and
// removed ones do not.
func TestPowerLossAtAnyTimeLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(depth.Pick(20, 100, 2000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 0))
			d := newDisk(t)
			l := d.open()
			stored, removed := map[string][]byte{}, map[string]bool{}
			for step := range 200 {
				name := fmt.Sprintf("put-1-%d", step)
				switch rng.IntN(12) {
				case 0:
					for name := range stored {
						d.remove(l, name)
						delete(stored, name)
						removed[name] = true
						break
					}
				case 1:
					l.retireNumber(l.number)
				case 2: // one that is laid, and that nobody waits for
					d.write(name, []byte("laid"))
					l.Add(name, []byte("laid"))
				case 3: // a batch, more than waits in memory
					var names []string
					for i := range 1 + rng.IntN(10) {
						names = append(names, fmt.Sprintf("%s-%d", name, i))
						stored[names[i]] = fill(rng)
						d.write(names[i], stored[names[i]])
						l.Add(names[i], stored[names[i]])
					}
					for _, name := range l.Sync(names...) {
						d.sync(name)
					}
				case 4:
					if rng.IntN(4) > 0 {
						continue
					}
					d, l = afterPowerLoss(t, rng, d, l)
					for name, want := range stored {
						if got := d.durable(name); !bytes.Equal(got, want) {
							t.Errorf("step %d: %s has %d bytes, not %d", step, name, len(got), len(want))
						}
					}
					for name := range removed {
						if got := d.durable(name); got != nil {
							t.Errorf("step %d: %s was removed, and has %d bytes", step, name, len(got))
						}
					}
				default:
					stored[name] = fill(rng)
					d.put(l, name, stored[name])
				}
			}
			noError(t, l.Close())
		})
	}
}

// afterPowerLoss cuts the power and opens the log again.
func afterPowerLoss(t *testing.T, rng *rand.Rand, d *disk, l *Log) (*disk, *Log) {
	t.Helper()
	after := d.powerLoss(rng)
	noError(t, l.Close())
	return after, after.open()
}

func fill(rng *rand.Rand) []byte {
	b := make([]byte, rng.IntN(2000))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestAddIsRefusedWhileBothSegmentsAreFull checks that the log accepts nothing until a segment is
// settled.
func TestAddIsRefusedWhileBothSegmentsAreFull(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	entered, leave := make(chan struct{}), make(chan struct{})
	d.settles = func() error { entered <- struct{}{}; <-leave; return nil }
	taken := 0
	for ; d.put(l, fmt.Sprint("put-1-", taken), make([]byte, 1000)); taken++ {
	}
	if taken < 20 || taken > 40 { // two segments of 20 names or 16 KiB
		t.Errorf("%d contents were taken", taken)
	}
	<-entered
	d.mu.Lock()
	d.settles = nil
	d.mu.Unlock()
	close(leave)
	l.settling.Wait()
	if !d.put(l, "put-1-later", nil) {
		t.Error("nothing is taken after the disk has answered")
	}
	noError(t, l.Close())
}

// TestForgetWithoutRoomSettlesSegments checks that a content is not restored although its removal
// could not be recorded.
func TestForgetWithoutRoomSettlesSegments(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	l.limits.segment = int64(headerSize + frame{name: "put-1-a", content: make([]byte, 1000)}.size())
	d.put(l, "put-1-a", make([]byte, 1000))
	l.free = nil // as if the other one waited
	d.remove(l, "put-1-a")
	after := d.powerLoss(rand.New(rand.NewPCG(1, 1)))
	after.open()
	if got := after.durable("put-1-a"); got != nil {
		t.Errorf("what was removed has %d bytes", len(got))
	}
}

// TestDiskFailureTurnsLogOff checks that acknowledged contents survive a failed disk, and that the
// log does not use the disk again.
func TestDiskFailureTurnsLogOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, breaks := range map[string]func(*disk){
		"segments": func(d *disk) { d.syncs = func() error { return broken } },
		"contents": func(d *disk) { d.settles = func() error { return broken } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 3))
			d := newDisk(t)
			l := d.open()
			stored := map[string][]byte{}
			for i := range 60 {
				if i == 5 {
					d.mu.Lock()
					breaks(d)
					d.mu.Unlock()
				}
				name := fmt.Sprint("put-1-", i)
				stored[name] = fill(rng)
				d.put(l, name, stored[name])
			}
			l.settling.Wait()
			if d.put(l, "put-1-late", nil) {
				t.Error("something was taken after a failure")
			}
			after := d.powerLoss(rng)
			if err := l.Close(); !errors.Is(err, broken) {
				t.Errorf("Close: %v", err)
			}
			noError(t, after.open().Close())
			for name, want := range stored {
				if got := after.durable(name); !bytes.Equal(got, want) {
					t.Errorf("%s has %d bytes, not %d", name, len(got), len(want))
				}
			}
		})
	}
}

// TestFailedSyncIsPermanent: the system reports a failed sync once; later callers must get an error
// too.
func TestFailedSyncIsPermanent(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	fails := errors.New("broken")
	d.syncs = func() (err error) { err, fails = fails, nil; return err }
	l.Add("put-1-a", nil)
	l.Add("put-1-b", nil)
	for _, name := range []string{"put-1-a", "put-1-b"} {
		if len(l.Sync(name)) == 0 {
			t.Errorf("%s is said to be durable", name)
		}
	}
	noError(t, l.Close())
}

// TestUnwrittenBatchIsNotDurable checks contents in a batch that another caller failed to write.
func TestUnwrittenBatchIsNotDurable(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	l.free = nil // as if both waited
	l.Add("put-1-a", nil)
	l.Add("put-1-b", make([]byte, l.limits.spill)) // writes what waits
	if len(l.Sync("put-1-a")) == 0 {
		t.Error("a content that was not written is said to be durable")
	}
}

// TestReusedSegmentIgnoresOldFrames checks that frames of an earlier use are not read.
func TestReusedSegmentIgnoresOldFrames(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	for i := range 5 {
		d.put(l, fmt.Sprint("put-1-", i), make([]byte, 100))
	}
	for range 2 { // the other one, and this one again
		l.retireNumber(l.number)
		l.settling.Wait()
		d.put(l, fmt.Sprint("put-1-", l.number+5), make([]byte, 100))
	}
	for i := range 5 {
		d.remove(l, fmt.Sprint("put-1-", i))
	}
	after := d.powerLoss(rand.New(rand.NewPCG(4, 4)))
	noError(t, after.open().Close())
	for i := range 5 {
		if got := after.durable(fmt.Sprint("put-1-", i)); got != nil {
			t.Errorf("content %d, which was removed, has %d bytes", i, len(got))
		}
	}
	noError(t, l.Close())
}

var update = flag.Bool("update", false, "rewrite the golden file")

// golden returns a segment with every kind of record, and frames of an earlier use behind its end.
func golden() []byte {
	b := frame{kind: kindContent, name: "put-1-a", content: []byte("hello")}.append(nil)
	b = frame{kind: kindContent, name: "put-1-empty"}.append(b)
	b = frame{kind: kindForgotten, name: "put-1-a"}.append(b)
	seal(b, 7)
	older := frame{kind: kindContent, name: "put-1-older"}.append(nil)
	seal(older, 6)
	return slices.Concat(header(7), b, older)
}

// TestSegmentMatchesGoldenFile checks that the format does not change.
func TestSegmentMatchesGoldenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "segment-v1")
	if *update {
		noError(t, os.WriteFile(path, golden(), 0o600))
	}
	want, err := os.ReadFile(path)
	noError(t, err)
	if !bytes.Equal(golden(), want) {
		t.Error("a segment is written in another way than the golden one")
	}
	d := newDisk(t)
	noError(t, os.Mkdir(d.dir, 0o700))
	noError(t, os.WriteFile(segmentPath(d.dir, 0), want, 0o600))
	noError(t, d.open().Close())
	if len(d.files) != 1 || d.durable("put-1-empty") == nil {
		t.Errorf("restored are %v", d.files)
	}
}

// TestNewerSegmentIsRejected also checks that a truncated segment is read up to its end.
func TestNewerSegmentIsRejected(t *testing.T) {
	t.Parallel()
	odd := func(change func(b []byte)) []byte {
		b := frame{kind: kindContent, name: "put-1-a"}.append(nil)
		b = frame{kind: kindContent, name: "put-1-b"}.append(b)
		change(b)
		seal(b, 1)
		return append(header(1), b...)
	}
	later := header(1)
	later[len(magic)] = formatVersion + 1
	binary.LittleEndian.PutUint32(later[headerSize-4:], digest.CRC32C(later[:headerSize-4]))
	for name, b := range map[string][]byte{
		"version": later,
		"since":   odd(func(b []byte) { b[5] = formatVersion + 1 }),
		"kind":    odd(func(b []byte) { b[4] = 9 }),
	} {
		d := newDisk(t)
		noError(t, os.Mkdir(d.dir, 0o700))
		noError(t, os.WriteFile(segmentPath(d.dir, 1), b, 0o600))
		if _, err := Open(d.dir, d, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if left, err := os.ReadFile(segmentPath(d.dir, 1)); err != nil || !bytes.Equal(left, b) {
			t.Errorf("%s: it was changed: %v", name, err)
		}
	}
	whole := odd(func([]byte) {})
	for n := range whole {
		d := newDisk(t)
		noError(t, os.Mkdir(d.dir, 0o700))
		noError(t, os.WriteFile(segmentPath(d.dir, 0), whole[:n], 0o600))
		noError(t, d.open().Close())
		one := (len(whole) - headerSize) / 2
		if got, want := len(d.files), max(0, n-headerSize)/one; got != want {
			t.Errorf("of %d bytes: %d contents, want %d", n, got, want)
		}
	}
}

// FuzzSegment reads arbitrary bytes.
func FuzzSegment(f *testing.F) {
	f.Add(golden())
	f.Add(golden()[:60])
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDisk(t)
		noError(t, os.Mkdir(d.dir, 0o700))
		noError(t, os.WriteFile(segmentPath(d.dir, 0), b, 0o600))
		if l, err := Open(d.dir, d, slog.New(slog.DiscardHandler)); err == nil {
			noError(t, l.Close())
		}
	})
}

// TestConcurrentAddsShareSyncs checks that every content is kept.
func TestConcurrentAddsShareSyncs(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	var all sync.WaitGroup
	for writer := range 8 {
		all.Go(func() {
			for i := range 50 {
				name := fmt.Sprintf("put-1-%d-%d", writer, i)
				d.put(l, name, []byte(name))
				if i%5 == 0 {
					d.remove(l, name)
				}
			}
		})
	}
	all.Wait()
	after := d.powerLoss(rand.New(rand.NewPCG(2, 2)))
	noError(t, after.open().Close())
	for writer := range 8 {
		for i := range 50 {
			name := fmt.Sprintf("put-1-%d-%d", writer, i)
			if got := after.durable(name); (string(got) == name) == (i%5 == 0) {
				t.Errorf("%s has %q", name, got)
			}
		}
	}
	noError(t, l.Close())
}

// TestCloseLeavesNoSegments also checks that contents that are too large or too many are reported
// at once.
func TestCloseLeavesNoSegments(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	if d.put(l, "put-1-large", make([]byte, MaxContent+1)) {
		t.Error("a content that is too large was taken")
	}
	l.limits.segment = 1 << 20
	if !d.put(l, "put-1-largest", make([]byte, MaxContent)) {
		t.Error("the largest content was not taken")
	}
	if rest := l.Sync("put-1-largest", "put-1-large", "put-1-unknown"); len(rest) != 2 {
		t.Errorf("to be synced are %q", rest)
	}
	noError(t, l.Close())
	entries, err := os.ReadDir(d.dir)
	noError(t, err)
	if len(entries) > 0 {
		t.Errorf("Close has left %v", entries)
	}
	if d.put(l, "put-1-late", nil) {
		t.Error("a closed log takes contents")
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
