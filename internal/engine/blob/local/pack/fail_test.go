package pack

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// TestFailedSyncsLeakNoFiles checks that repeated failures leave no open files and no empty packs.
func TestFailedSyncsLeakNoFiles(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	kept, err := layContent(t, p, []byte("kept"))
	noError(t, err)
	_, err = p.Sync([]string{kept})
	noError(t, err)
	var failed []string
	for range 5 {
		d.fails = nil // a pack is made
		name, err := layContent(t, p, []byte("lost"))
		noError(t, err)
		d.fails = func() bool { return true }
		if _, err := p.Sync([]string{name}); !errors.Is(err, errDisk) {
			t.Errorf("settled: %v", err)
		}
		failed = append(failed, name)
	}
	d.fails = nil
	p.ends.Wait()
	for _, k := range p.open {
		if k.file != nil {
			t.Errorf("%s is open", k.path)
		}
	}
	for _, name := range failed {
		if _, err := p.Sync([]string{name}); !errors.Is(err, errDisk) {
			t.Errorf("settled later: %v", err)
		}
		_, _, err := p.Remove([]blob.Slot{slot(t, name)})
		noError(t, err)
	}
	left, err := filepath.Glob(filepath.Join(d.dir, "??", "*"))
	if err != nil || len(left) != 1 || len(p.open) != 1 {
		t.Errorf("left are %v, %v; known are %v", left, err, p.open)
	}
	if _, err := p.Read(slot(t, kept)); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Remove([]blob.Slot{slot(t, kept)}); err != nil || len(p.open) != 0 {
		t.Errorf("known are %v, %v", p.open, err)
	}
	noError(t, p.Close())
}

// TestUnreadableHeaderDoesNotBlockOtherRemovals checks unreadable headers and those of a newer
// version.
func TestUnreadableHeaderDoesNotBlockOtherRemovals(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	var slots []blob.Slot
	for range 3 {
		name, err := layContent(t, p, []byte("content"))
		noError(t, err)
		slots = append(slots, slot(t, name))
	}
	id, err := slothead.PackID(slots[1].Pack)
	noError(t, err)
	head := make([]byte, HeaderSize)
	slothead.PutHeader(head, id, slots[1].First)
	head[4] = 9
	binary.LittleEndian.PutUint32(head[36:], digest.CRC32C(head[:36]))
	f, err := os.OpenFile(p.path(slots[1].Pack), os.O_WRONLY, 0)
	noError(t, err)
	_, err = f.WriteAt(head, slots[1].First*Block)
	noError(t, errors.Join(err, f.Close()))

	gone, missing, err := p.Remove(slots)
	if want := []blob.Slot{slots[0], slots[2]}; !slices.Equal(gone, want) || len(missing) > 0 || err == nil {
		t.Errorf("gone are %v, missing %v, %v", gone, missing, err)
	}
	noError(t, p.Close())
}

// holeless is a disk without holes: freed ranges are written as zeros.
type holeless struct{ *disk }

func (holeless) NextData(f *os.File, off int64) (int64, error) {
	info, err := f.Stat()
	if err == nil && off >= info.Size() {
		err = io.EOF
	}
	return off, err
}

// TestPackOfWrittenZerosIsRemoved checks a pack whose freed ranges are written as zeros.
func TestPackOfWrittenZerosIsRemoved(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := New(holeless{d}, slog.New(slog.DiscardHandler))
	var names []string
	for range 3 {
		name, err := layContent(t, p, make([]byte, MaxContent))
		noError(t, err)
		names = append(names, name)
	}
	noError(t, p.Close())
	for i, name := range names {
		_, _, err := p.Remove([]blob.Slot{slot(t, name)})
		noError(t, err)
		left, err := filepath.Glob(filepath.Join(d.dir, "??", "*"))
		noError(t, err)
		if gone := len(left) == 0; gone != (i == 2) {
			t.Errorf("after %d of 3 were removed there is %v", i+1, left)
		}
	}
}
