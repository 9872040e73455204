package wal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/testkit/depth"
)

// TestRetireByAgeConcurrentWithWrites settles segments by age at any moment, for the race detector.
func TestRetireByAgeConcurrentWithWrites(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	l.limits.age = time.Microsecond
	for i := range 200 {
		d.put(l, fmt.Sprint("put-1-", i), make([]byte, 100))
	}
	noError(t, l.Close())
}

// TestFailedSettleKeepsSegment: the system reports a lost write once, and the next sync succeeds;
// the contents must stay in the log.
func TestFailedSettleKeepsSegment(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	broken := errors.New("broken")
	once := broken
	d.settles = func() (err error) { err, once = once, nil; return err }
	d.put(l, "put-1-a", []byte("hello"))
	l.retireNumber(l.number)
	l.settling.Wait()
	if err := l.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: %v", err)
	}
	d.write("put-1-a", nil) // what the disk has
	noError(t, d.open().Close())
	if got := d.durable("put-1-a"); string(got) != "hello" {
		t.Errorf("there are %q", got)
	}
}

// TestSettleAllDoesNotBlockOthers checks that other callers continue while a Discard settles all
// segments.
func TestSettleAllDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	d.put(l, "put-1-a", nil)
	d.settles = func() error { d.put(l, "put-1-b", nil); return nil } // which would wait for ever
	noError(t, l.settleAll())
	d.settles = nil
	noError(t, l.Close())
}

// TestForgetIsRepeatable checks that repeated and concurrent calls return the same result until the
// record is durable.
func TestForgetIsRepeatable(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	d.put(l, "put-1-a", nil)
	broken := errors.New("broken")
	d.syncs = func() error {
		if held, _ := l.addForgotten([]string{"put-1-a"}); !held {
			t.Error("it counts as forgotten while that is made durable")
		}
		return broken
	}
	for range 2 {
		if err := l.Discard("put-1-a"); !errors.Is(err, broken) {
			t.Errorf("Forget: %v", err)
		}
	}
}

// TestForgetAfterFailedWriteKeepsContent: a failed write may have written the content to the
// segment.
func TestForgetAfterFailedWriteKeepsContent(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	d.put(l, "put-1-a", nil)
	broken := errors.New("broken")
	d.settles = func() error { return broken }
	noError(t, l.active.file.Close()) // nothing can be written any more
	if d.put(l, "put-1-b", nil) {
		t.Error("it was taken")
	}
	if err := l.Discard("put-1-b"); !errors.Is(err, broken) {
		t.Errorf("Forget: %v", err)
	}
}

// TestUncreatableSegmentDisablesLog checks that contents are stored without a log on a full disk.
func TestUncreatableSegmentDisablesLog(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]string{"no directory": "", "no file": "0"} {
		d := newDisk(t)
		l := d.open()
		if there == "" {
			noError(t, os.WriteFile(d.dir, nil, 0o600))
		} else {
			noError(t, os.MkdirAll(filepath.Join(d.dir, there), 0o700))
		}
		if d.put(l, "put-1-a", nil) {
			t.Errorf("%s: it was taken", name)
		}
		if err := errors.Join(l.Discard("put-1-a"), l.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpenOnFullDiskUsesReservedSpace checks that Open uses the reserved space to restore files,
// and reports DiskFull if even that does not suffice.
func TestOpenOnFullDiskUsesReservedSpace(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	want := map[string][]byte{}
	for i := range 10 {
		name := fmt.Sprint("put-1-", i)
		want[name] = make([]byte, 100)
		d.put(l, name, want[name])
	}
	cut := func(full int64) *disk {
		after := d.powerLoss(rand.New(rand.NewPCG(7, 7)))
		after.full = full
		return after
	}
	after := cut(l.limits.segment + int64(len(want))*fileBlock)
	noError(t, after.open().Close())
	for name, b := range want {
		if !bytes.Equal(after.durable(name), b) {
			t.Errorf("%s is not there", name)
		}
	}
	after = cut(1)
	for range 2 {
		if _, err := Open(after.dir, after, slog.New(slog.DiscardHandler)); drive.KindOf(err) != drive.DiskFull {
			t.Errorf("Open: %v", err)
		}
	}
	after.full = 0
	noError(t, after.open().Close())
	if !bytes.Equal(after.durable("put-1-0"), want["put-1-0"]) {
		t.Error("a content was lost by a start that failed")
	}
	noError(t, l.Close())
}

// TestFailedLogReleasesReservedSpace checks that a log that was turned off frees its disk space.
func TestFailedLogReleasesReservedSpace(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	d.put(l, "put-1-a", nil)
	l.retireNumber(l.number)
	l.settling.Wait()
	d.put(l, "put-1-b", nil)
	once := errors.New("broken")
	d.syncs = func() (err error) { err, once = once, nil; return err }
	if d.put(l, "put-1-c", nil) {
		t.Error("it was taken")
	}
	l.settling.Wait()
	if entries, err := os.ReadDir(d.dir); err != nil || len(entries) > 0 {
		t.Errorf("there are %v, %v", entries, err)
	}
	noError(t, l.Close())
}

// TestOpenOfLogInUseFails opens the directory of an open log under another name.
func TestOpenOfLogInUseFails(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	d.put(l, "put-1-a", []byte("hello"))
	if _, err := Open(d.dir, d, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("it was opened")
	}
	after := d.powerLoss(rand.New(rand.NewPCG(5, 5)))
	noError(t, after.open().Close())
	if got := after.durable("put-1-a"); string(got) != "hello" {
		t.Errorf("there are %q", got)
	}
	noError(t, l.Close())
}

// badDisk is a disk that fails sometimes and reports each failure once. Later successful syncs do
// not write the lost bytes.
type badDisk struct {
	*disk
	rng  *rand.Rand
	gaps map[string]bool // segments and contents that have lost something
}

var errDisk = errors.New("the disk has failed")

func (b *badDisk) fails() bool { return b.rng.IntN(12) == 0 }

func (b *badDisk) SyncData(f *os.File) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails() {
		b.gaps[f.Name()] = true
		return errDisk
	}
	now, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	if b.gaps[f.Name()] { // what was written since: a header of zeros at most
		now = append(now[:headerSize:headerSize], make([]byte, len(now)-headerSize)...)
		if old := b.synced[f.Name()]; len(old) > headerSize {
			copy(now[headerSize:], old[headerSize:])
		}
	}
	b.synced[f.Name()] = now
	return nil
}

func (b *badDisk) Sync([]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	failed := b.fails()
	for name, f := range b.files {
		if failed && !f.durable {
			b.gaps[name] = true
		}
		f.durable = f.durable || !b.gaps[name]
		b.files[name] = f
	}
	if failed {
		return errDisk
	}
	return nil
}

// TestDiskFailureAtAnyCallLosesNothing checks after a power loss that acknowledged contents exist
// and removed ones do not.
func TestDiskFailureAtAnyCallLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(depth.Pick(50, 300, 3000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			d := &badDisk{newDisk(t), rand.New(rand.NewPCG(seed, 2)), map[string]bool{}}
			l, err := Open(d.dir, d, slog.New(slog.DiscardHandler))
			noError(t, err)
			l.limits = smallLimits
			stored, removed := map[string][]byte{}, map[string]bool{}
			for step := range 1 + rng.IntN(80) {
				name := fmt.Sprintf("put-1-%03d", step)
				switch rng.IntN(8) {
				case 0, 1:
					for name := range stored {
						d.mu.Lock()
						delete(d.files, name)
						d.mu.Unlock()
						err := l.Discard(name)
						if err != nil { // who removes does it again
							err = l.Discard(name)
						}
						if err == nil {
							removed[name] = true
						}
						delete(stored, name) // what could not be removed may come back
						break
					}
				case 2:
					l.retireNumber(l.number)
				default:
					stored[name] = fill(rng)
					d.put(l, name, stored[name])
				}
			}
			if rng.IntN(2) == 0 {
				_ = l.Close()
			}
			after := d.powerLoss(rng)
			noError(t, after.open().Close())
			for name, want := range stored {
				if got := after.durable(name); !bytes.Equal(got, want) {
					t.Errorf("%s has %d bytes, not %d", name, len(got), len(want))
				}
			}
			for name := range removed {
				if got := after.durable(name); got != nil {
					t.Errorf("%s was removed, and has %d bytes", name, len(got))
				}
			}
			_ = l.Close()
		})
	}
}

// TestForgetAfterFailedSettle checks that contents can be removed after a failed settle, even
// without free space.
func TestForgetAfterFailedSettle(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	l := d.open()
	d.settles = func() error { return errDisk }
	var stored []string
	for taken := true; taken; {
		name := fmt.Sprint("put-1-", len(stored))
		taken = d.put(l, name, make([]byte, 1000))
		stored = append(stored, name)
	}
	l.limits.segment = 0 // the active one is full
	l.settling.Wait()
	l.retireNumber(l.number)
	for _, name := range stored {
		d.remove(l, name)
	}
	after := d.powerLoss(rand.New(rand.NewPCG(6, 6)))
	noError(t, after.open().Close())
	for _, name := range stored {
		if got := after.durable(name); got != nil {
			t.Errorf("%s has come back", name)
		}
	}
}
