package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// newAdoption returns a complete, durable upload of b, and an empty one of size bytes that is to
// adopt it.
func newAdoption(t *testing.T, d *Dir, b []byte, size int) (from, to blob.Ref) {
	t.Helper()
	from, to = blobtest.NewRef(drive.ByteSize(len(b))), blobtest.NewRef(drive.ByteSize(size))
	for _, ref := range []blob.Ref{from, to} {
		noError(t, d.Staging.Create(t.Context(), ref))
	}
	for n := 0; n*int(blobtest.PartSize) < len(b); n++ {
		send(t, d, from, 1, n, blobtest.Slice(b, n))
	}
	_, err := d.Staging.Fence(t.Context(), from, 1)
	noError(t, err)
	return from, to
}

// wantAdopted checks that to has the bytes of from, and from has none.
func wantAdopted(t *testing.T, d *Dir, from, to blob.Ref, b []byte) {
	t.Helper()
	staged := load(t, d, to)
	var n drive.ByteSize
	for _, p := range append(staged.Parts, staged.Tails...) {
		want := blobtest.PartOf(t, p.N, b[p.N*int(blobtest.PartSize):][:p.Size])
		want.Session = [16]byte{}
		if p != want {
			t.Errorf("part %d is %+v, want %+v", p.N, p, want)
		}
		n += p.Size
	}
	if int(n) != len(b) || staged.Suspect || len(staged.Tails) > 1 {
		t.Errorf("%d bytes of %d, %+v", n, len(b), staged)
	}
	got, err := os.ReadFile(filepath.Join(d.stagedDir(to), dataFile))
	if err != nil || !bytes.Equal(got, b) {
		t.Errorf("other bytes, %v", err)
	}
	if _, err := d.Staging.Load(t.Context(), from); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("what was taken over is there still: %v", err)
	}
	noError(t, d.Staging.Remove(t.Context(), from))
	load(t, d, to)
}

// TestAdoptSurvivesCrashAtEachStep lets the process die between any two steps of Adopt, and after
// the last.
func TestAdoptSurvivesCrashAtEachStep(t *testing.T) {
	t.Parallel()
	const part = int(blobtest.PartSize)
	for _, c := range []struct{ first, all int }{{2*part + 5, 2*part + 5}, {2*part + 5, 4 * part}, {2 * part, 2*part + 1}, {5, 3 * part}} {
		for dies := range 6 {
			t.Run(fmt.Sprint(c, dies), func(t *testing.T) {
				t.Parallel()
				d := openTestDir(t)
				b := blobtest.Bytes(1, drive.ByteSize(c.first))
				from, to := newAdoption(t, d, b, c.all)
				old, u := d.Staging.lookup(from), d.Staging.lookup(to)
				old.mu.Lock()
				noError(t, old.loadLocked())
				j, err := old.adoptedJournalLocked(to)
				old.mu.Unlock()
				noError(t, err)
				u.mu.Lock()
				noError(t, u.loadLocked())
				noError(t, u.completeAdoptedLocked(j))
				u.mu.Unlock()
				steps := u.adoptSteps(old, j)
				for _, step := range steps[:dies] {
					noError(t, step())
				}
				d = reopenDir(t, d)
				adopted, err := d.Staging.Adopt(t.Context(), to, from)
				noError(t, err)
				if adopted != (dies < 2) { // from then on the next load goes on
					t.Errorf("taken over again: %v", adopted)
				}
				wantAdopted(t, d, from, to, b)
				wantAdopted(t, reopenDir(t, d), from, to, b)
			})
		}
	}
}

// TestRefusedAdoptChangesNothing checks uploads whose bytes cannot be adopted.
func TestRefusedAdoptChangesNothing(t *testing.T) {
	t.Parallel()
	const part = int(blobtest.PartSize)
	for name, spoil := range map[string]func(t *testing.T, d *Dir, from, to *blob.Ref){
		"a part is missing": func(t *testing.T, d *Dir, from, _ *blob.Ref) {
			noError(t, d.Staging.Drop(t.Context(), *from, 2, 0))
		},
		"a part is not synced": func(t *testing.T, d *Dir, from, _ *blob.Ref) {
			noError(t, d.Staging.Drop(t.Context(), *from, 2, 0))
			send(t, d, *from, 2, 0, blobtest.Bytes(2, blobtest.PartSize))
		},
		"it has bytes": func(t *testing.T, d *Dir, _, to *blob.Ref) {
			send(t, d, *to, 2, 0, blobtest.Bytes(2, blobtest.PartSize))
		},
		"another part size": func(t *testing.T, d *Dir, _, to *blob.Ref) {
			*to = blobtest.NewRef(to.Size)
			to.PartSize *= 2
			noError(t, d.Staging.Create(t.Context(), *to))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openTestDir(t)
			from, to := newAdoption(t, d, blobtest.Bytes(1, drive.ByteSize(2*part)), 4*part)
			spoil(t, d, &from, &to)
			before := load(t, d, from)
			adopted, err := d.Staging.Adopt(t.Context(), to, from)
			if adopted || err != nil {
				t.Errorf("%v, %v", adopted, err)
			}
			if after := load(t, d, from); after.Held != before.Held || len(after.Parts) != len(before.Parts) {
				t.Errorf("%+v, before %+v", after, before)
			}
		})
	}
}

// TestWriteSharesBytesOfSources checks that a part with Sources is the same whether or not the file
// system shares the bytes.
func TestWriteSharesBytesOfSources(t *testing.T) {
	t.Parallel()
	const part = int(blobtest.PartSize)
	b := blobtest.Bytes(1, drive.ByteSize(2*part+5))
	d := openTestDir(t)
	from, to := newAdoption(t, d, b, 2*part+5)
	for n, off := range []int{part, 7, 2 * part} {
		size := min(part, len(b)-n*part)
		o, err := d.Staging.OpenStaged(t.Context(), from)
		noError(t, err)
		in := io.NewSectionReader(o, int64(off), int64(size))
		opt := blob.BodyOptions{
			N: n, Offset: drive.ByteSize(n * part), Size: drive.ByteSize(size), Session: blobtest.Session,
			Sources: []blob.Source{{Object: o, Offset: drive.ByteSize(off), Size: drive.ByteSize(size)}},
		}
		got, err := d.Staging.Write(t.Context(), to, blob.Write{N: n, Gen: 1, Session: blobtest.Session, Size: drive.ByteSize(size)}, blob.NewBody(in, opt))
		noError(t, err)
		noError(t, o.Close())
		if want := blobtest.PartOf(t, n, b[off:off+size]); got != want {
			t.Errorf("part %d is %+v, want %+v", n, got, want)
		}
	}
	t.Logf("files share their bytes: %v", !d.noSharing.Load())
	got, err := os.ReadFile(filepath.Join(d.stagedDir(to), dataFile))
	noError(t, err)
	for n, off := range []int{part, 7, 2 * part} {
		if want := b[off:min(off+part, len(b))]; n < 2 && !bytes.Equal(got[n*part:(n+1)*part], want) || n == 2 && !bytes.Equal(got[2*part:], want) {
			t.Errorf("part %d has other bytes", n)
		}
	}
}
