package thumb

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"testing"
	"testing/synctest"

	"example.org/smartdrive/internal/base/drive"
)

type content struct{ *bytes.Reader }

func (c content) Size() drive.ByteSize { return drive.ByteSize(c.Reader.Size()) }
func (content) Close() error           { return nil }

// TestWaitingForMemorySaysNothingOfAnImage: an image that times out while waiting for memory was
// not examined, so no refusal is cached.
func TestWaitingForMemorySaysNothingOfAnImage(t *testing.T) {
	t.Parallel()
	var raw bytes.Buffer
	if err := png.Encode(&raw, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	src := Source{Sum: "ab12", Open: func(context.Context) (File, error) { return content{bytes.NewReader(raw.Bytes())}, nil }}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Dir: dir, Child: []string{"/nowhere/smartdrive"}})
		all := int64(m.opt.MaxMemory)
		if err := m.memory.Acquire(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Make(t.Context(), drive.AccountID{}, src, 256); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("while others have the memory: %v", err)
		}
		m.memory.Release(all)
		if _, err := m.Make(t.Context(), drive.AccountID{}, src, 256); err != nil { // decoded in this process, because there is no child
			t.Errorf("afterwards: %v", err)
		}
	})
}
