package pack

import (
	"errors"
	"path/filepath"
	"testing"

	"smartdrive/internal/engine/blob"
)

// A disk whose syncs fail for long leaves no files open, and none behind.
func TestManySyncsFail(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	kept, err := lay(t, p, []byte("kept"))
	noError(t, err)
	_, err = p.Sync([]string{kept})
	noError(t, err)
	var failed []string
	for range 5 {
		d.fails = nil // a pack is made
		name, err := lay(t, p, []byte("lost"))
		noError(t, err)
		d.fails = func() bool { return true }
		if _, err := p.Sync([]string{name}); !errors.Is(err, errDisk) {
			t.Errorf("settled: %v", err)
		}
		failed = append(failed, name)
	}
	d.fails = nil
	p.ending.Wait()
	for _, k := range p.open {
		if k.file != nil {
			t.Errorf("%s is open", k.path)
		}
	}
	for _, name := range failed {
		if _, err := p.Sync([]string{name}); !errors.Is(err, errDisk) {
			t.Errorf("settled later: %v", err)
		}
		_, err := p.Remove([]blob.Slot{slot(t, name)})
		noError(t, err)
	}
	left, err := filepath.Glob(filepath.Join(d.dir, "??", "*"))
	if err != nil || len(left) != 1 || len(p.open) != 1 {
		t.Errorf("left are %v, %v; known are %v", left, err, p.open)
	}
	if _, err := p.Read(slot(t, kept)); err != nil {
		t.Error(err)
	}
	if _, err := p.Remove([]blob.Slot{slot(t, kept)}); err != nil || len(p.open) != 0 {
		t.Errorf("known are %v, %v", p.open, err)
	}
	noError(t, p.Close())
}
