package content_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local"
)

// spoiled is a store that flips a bit at an offset of every content; negative: none.
type spoiled struct {
	blob.Store
	at int64
}

type spoiledObject struct {
	blob.Object
	at int64
}

func (s *spoiled) Open(ctx context.Context, name string) (blob.Object, error) {
	o, err := s.Store.Open(ctx, name)
	return spoiledObject{o, s.at}, err
}

func (o spoiledObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p, off)
	if off <= o.at && o.at < off+int64(n) {
		p[o.at-off] ^= 1
	}
	return n, err
}

// TestOpenDetectsWrongBytes: damaged small content cannot be opened, and readers of larger content
// get an error before the end of the damaged part. The blob is marked.
func TestOpenDetectsWrongBytes(t *testing.T) {
	t.Parallel()
	const part = drive.MiB
	for _, c := range []struct {
		size, at, from int64
		most           int64 // bytes that may be read before the error: the wrong part is not read to its end
	}{
		{3000, 1500, 0, 0},
		{3 << 20, 2_500_000, 0, 3<<20 - 1},
		{3 << 20, 2_500_000, 1<<20 + 5, 2<<20 - 6},                // a range that begins within a part
		{3<<20 + 10, 3<<20 + 3, 2_000_000, 3<<20 + 9 - 2_000_000}, // the last part is short
	} {
		t.Run(fmt.Sprint(c.size, " ", c.at, " ", c.from), func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			dir, err := local.Open(t.Context(), local.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { dir.Close() })
			bad := &spoiled{dir.Blobs, -1}
			i := content.Inspector{Content: s.Content, DB: s.db, Store: bad, Log: slog.New(slog.DiscardHandler)}
			data := bytes.Repeat([]byte("0123456789abcdef"), int(c.size/16)+1)[:c.size]
			m, err := content.Measure(t.Context(), bytes.NewReader(data), drive.ByteSize(c.size), part)
			if err != nil {
				t.Fatal(err)
			}
			name := drive.NewID[drive.UploadID]().String()
			if _, err := dir.Blobs.Put(t.Context(), name, blob.NewBody(bytes.NewReader(data), blob.BodyOptions{Size: drive.ByteSize(c.size)})); err != nil {
				t.Fatal(err)
			}
			id, _ := s.attach(t, content.NewContent{
				ID: drive.NewID[drive.BlobID](), File: name, Sum: m.Sum, Size: drive.ByteSize(c.size), PartSize: part, CRC32: m.CRC32, Parts: content.PackParts(m.Parts),
			})
			read := func() ([]byte, content.Blob, error) {
				b, err := s.Find(t.Context(), s.db, id)
				if err != nil {
					t.Fatal(err)
				}
				o, err := i.Open(t.Context(), b)
				if err != nil {
					return nil, b, err
				}
				defer o.Close()
				got, err := io.ReadAll(io.NewSectionReader(o, c.from, c.size-c.from))
				return got, b, err
			}
			if got, _, err := read(); err != nil || !bytes.Equal(got, data[c.from:]) {
				t.Fatalf("sound content: %d bytes, %v", len(got), err)
			}
			bad.at = c.at
			got, _, err := read()
			if !drive.IsKind(err, drive.Internal) || int64(len(got)) > c.most {
				t.Errorf("%d bytes were read, %v", len(got), err)
			}
			bad.at = -1 // the fault is gone, and it works again
			if got, b, err := read(); err != nil || len(got) != len(data[c.from:]) || b.Damaged == 0 {
				t.Errorf("read %d bytes, marked at %v, %v", len(got), b.Damaged, err)
			}
		})
	}
}
