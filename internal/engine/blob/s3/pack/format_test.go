package pack

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// golden is the name of the pack in testdata.
const golden = "put-7-018f0000-0000-7000-8000-0000000000c9"

// goldenContents are its contents by slot; one in between was removed.
var goldenContents = map[string]string{golden + ".0008.01": "first", golden + ".000d.01": "", golden + ".000e.02": string(bytes.Repeat([]byte("x"), 600))}

// TestPackMatchesGoldenFile checks that a pack of an earlier release is read and would be written
// identically.
func TestPackMatchesGoldenFile(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("testdata", "pack-v1"))
	noError(t, err)
	b := newBucket()
	b.objects[ObjectName(golden)] = want
	p := b.reopen()
	for name, want := range goldenContents {
		if got, whole, err := p.Read(t.Context(), slot(t, name)); err != nil || !whole || string(got) != want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	list, err := p.List(t.Context(), golden, []string{ObjectName(golden)})
	if err != nil || len(list) != len(goldenContents) {
		t.Errorf("%d contents, %v", len(list), err)
	}

	again := newBucket()
	p = again.reopen()
	names := []string{p.ReserveName(golden, 5), p.ReserveName(own(), 1500), p.ReserveName(own(), 0), p.ReserveName(own(), 600)}
	for _, name := range names {
		content := []byte(goldenContents[name])
		if name == names[1] {
			content = make([]byte, 1500)
		}
		ok, err := p.Add(slot(t, name), append(make([]byte, slothead.HeaderSize), content...))
		if !ok || err != nil {
			t.Fatalf("%s is not laid: %v", name, err)
		}
	}
	noError(t, p.Sync(t.Context(), names))
	_, err = p.Remove(t.Context(), []blob.Slot{slot(t, names[1])}, false)
	noError(t, err)
	objects := again.packs()[golden]
	if len(objects) != 1 || objects[0] == ObjectName(golden) || !bytes.Equal(again.objects[objects[0]], want) {
		t.Error("it is written in another way now")
	}
}

// TestNewerPackVersionIsRejected also checks that nothing of the pack is lost.
func TestNewerPackVersionIsRejected(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := b.reopen()
	name := layContent(t, p, []byte("x"))
	noError(t, p.Sync(t.Context(), []string{name}))
	at := slot(t, name)
	object := b.objects[ObjectName(at.Pack)]
	binary.LittleEndian.PutUint32(object[4:], formatVersion+1)
	if _, err := p.List(t.Context(), at.Pack, []string{ObjectName(at.Pack)}); err == nil || drive.IsKind(err, drive.NotFound) {
		t.Errorf("it is listed: %v", err)
	}
	if _, err := p.Remove(t.Context(), []blob.Slot{at}, false); err == nil || len(b.objects) != 1 {
		t.Errorf("something is removed: %v", err)
	}
}

// TestDamagedSlotAffectsNoOther also checks that damaged content is reported as such.
func TestDamagedSlotAffectsNoOther(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		at        int // byte of the object that has changed
		lost      int // the content that cannot be read; -1: none
		removable bool
	}{
		"index":   {indexHead, -1, false},
		"head":    {IndexSize + Unit + 12, 1, true},
		"content": {IndexSize + Unit + slothead.HeaderSize, 1, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBucket()
			p := b.reopen()
			var names []string
			for _, content := range []string{"a", "b", "c"} {
				names = append(names, layContent(t, p, []byte(content)))
			}
			noError(t, p.Sync(t.Context(), names))
			pack := slot(t, names[0]).Pack
			b.objects[ObjectName(pack)][c.at]++
			judge := func(names []string) {
				t.Helper()
				for _, name := range names {
					got, whole, err := readAt(t.Context(), p, slot(t, name))
					sound := err == nil && whole && len(got) == 1
					if c.lost >= 0 && sound == (slot(t, name).First == int64(indexUnits+c.lost)) || c.lost < 0 && !sound {
						t.Errorf("%s is %q, %v, %v", name, got, whole, err)
					}
				}
			}
			judge(names)
			if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, names[0])}, false); (err == nil) != c.removable {
				t.Errorf("removed: %v", err)
			}
			judge(names[1:])
			list, err := p.List(t.Context(), pack, b.packs()[pack])
			noError(t, err)
			if has := func(name string) bool {
				return slices.ContainsFunc(list, func(c Content) bool { return c.Slot.Name() == name })
			}; !has(names[1]) || !has(names[2]) || has(names[0]) == c.removable {
				t.Errorf("%v is shown", list)
			}
		})
	}
}
