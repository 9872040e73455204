package pack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// TestEmptyPackIsRemoved checks that a listing removes a pack that a crash left empty, but not one
// that its process is about to write.
func TestEmptyPackIsRemoved(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	name, err := layContent(t, p, []byte("content"))
	noError(t, err)
	at := slot(t, name)
	path := p.path(at.Pack)
	noError(t, os.Truncate(path, 0))
	look := func(p *Packs) error {
		return p.Each(t.Context(), at.Pack, func(blob.Slot, int64) error { return errors.New("it has something") })
	}
	noError(t, look(p))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it has gone while it is open: %v", err)
	}
	noError(t, look(d.open()))
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}

// TestUnreadableBlockHidesOneContent checks that a listing omits only the content that begins in
// the block.
func TestUnreadableBlockHidesOneContent(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	var names, shown []string
	for range 3 {
		name, err := layContent(t, p, make([]byte, 5000))
		noError(t, err)
		names = append(names, name)
	}
	bad := slot(t, names[1])
	p.readAt = func(f *os.File, b []byte, off int64) (int, error) {
		if off == bad.First*Block {
			return 0, errDisk
		}
		return f.ReadAt(b, off)
	}
	noError(t, p.Each(t.Context(), bad.Pack, func(at blob.Slot, _ int64) error {
		shown = append(shown, at.Name())
		return nil
	}))
	if !slices.Equal(shown, []string{names[0], names[2]}) {
		t.Errorf("shown are %v of %v", shown, names)
	}
}

// TestNewerPackVersionIsRejected also checks that the current format does not change.
func TestNewerPackVersionIsRejected(t *testing.T) {
	t.Parallel()
	for version, refused := range map[string]bool{"pack-v1": false, "pack-v9": true} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			b, err := os.ReadFile(filepath.Join("testdata", version))
			noError(t, err)
			const name = "put-3-01a21e12-c356-79f8-8420-84264dec5658"
			noError(t, os.MkdirAll(filepath.Join(d.dir, "58"), 0o700))
			noError(t, os.WriteFile(filepath.Join(d.dir, "58", name+Suffix), b, 0o600))
			p := d.open()
			var found []string
			err = p.Each(context.Background(), name, func(at blob.Slot, _ int64) error {
				b, err := p.Read(at)
				found = append(found, at.Name()[len(name):]+" "+string(b[:min(5, len(b))]))
				return err
			})
			_, readErr := p.Read(blob.Slot{Pack: name, First: 0, Blocks: 1})
			if refused {
				if err == nil || readErr == nil || drive.IsKind(readErr, drive.NotFound) {
					t.Errorf("%v, %v", err, readErr)
				}
				return
			}
			if want := []string{".0000.01 hello", ".0002.02 aaaaa", ".0004.01 "}; err != nil || !slices.Equal(found, want) {
				t.Errorf("%q, %v", found, err)
			}
		})
	}
}
