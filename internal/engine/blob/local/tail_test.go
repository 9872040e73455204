package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// extend appends b to the tail of part n, which already holds had, like a process without cached
// hashes.
func extend(t *testing.T, d *Dir, ref blob.Ref, n int, had, b []byte) error {
	t.Helper()
	tail := blob.NewTail(drive.ByteSize(n) * ref.PartSize)
	_, err := tail.Write(had)
	noError(t, err)
	_, err = d.Staging.Extend(t.Context(), ref, extension(ref, n, len(had)), tailBody(ref, n, tail, bytes.NewReader(b)))
	return err
}

func extension(ref blob.Ref, n, at int) blob.Extend {
	return blob.Extend{N: n, Gen: 1, Session: blobtest.Session, At: drive.ByteSize(at), Whole: min(ref.PartSize, ref.Size-drive.ByteSize(n)*ref.PartSize)}
}

func tailBody(ref blob.Ref, n int, tail *blob.Tail, r io.Reader) blob.Body {
	return blob.NewBody(r, blob.BodyOptions{
		N: n, Offset: drive.ByteSize(n) * ref.PartSize, Size: blob.UnknownSize, Limit: ref.PartSize, Session: blobtest.Session, Tail: tail,
	})
}

// wantTail checks that part n has a tail with these bytes, at their place in the data file.
func wantTail(t *testing.T, d *Dir, ref blob.Ref, n int, want []byte) blob.Staged {
	t.Helper()
	staged := load(t, d, ref)
	if len(staged.Tails) != 1 || staged.Tails[0] != blobtest.PartOf(t, n, want) {
		t.Fatalf("tails are %+v, want %d bytes of part %d", staged.Tails, len(want), n)
	}
	b, err := os.ReadFile(filepath.Join(d.stagedDir(ref), dataFile))
	noError(t, err)
	if from := n * int(ref.PartSize); !bytes.Equal(b[from:from+len(want)], want) {
		t.Errorf("bytes of the tail differ")
	}
	return staged
}

// TestCrashDuringExtendKeepsShorterTail checks that the bytes after the shorter tail are freed.
func TestCrashDuringExtendKeepsShorterTail(t *testing.T) {
	t.Parallel()
	for _, had := range []int{0, 1, 300_000} {
		t.Run(fmt.Sprint(had), func(t *testing.T) {
			t.Parallel()
			d := openTestDir(t)
			ref, file := newUpload(t, d, 0)
			part := blobtest.Slice(file, 1)
			if had > 0 {
				noError(t, extend(t, d, ref, 1, nil, part[:had]))
			}
			reached, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				tail := blob.NewTail(ref.PartSize)
				_, _ = tail.Write(part[:had])
				r := io.MultiReader(bytes.NewReader(part[had:800_000]), stopReader{reached, leave})
				_, _ = d.Staging.Extend(context.Background(), ref, extension(ref, 1, had), tailBody(ref, 1, tail, r))
			}()
			<-reached
			after := reopenDir(t, d)
			if had > 0 {
				wantTail(t, after, ref, 1, part[:had])
			}
			if got, limit := load(t, after, ref).Held, blobtest.PartSize+drive.ByteSize(had)+2*4096; got > limit {
				t.Errorf("held %d, want at most %d: torn bytes must be freed", got, limit)
			}
			noError(t, extend(t, after, ref, 1, part[:had], part[had:]))
			wantNumbers(t, after, ref, file, 0, 1)
			close(leave)
			<-done
		})
	}
}

func TestTailIsSuspectAfterPowerLossOnly(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d)
	part := blobtest.Slice(file, 0)
	noError(t, extend(t, d, ref, 0, nil, part[:1000]))
	noError(t, extend(t, d, ref, 0, part[:1000], part[1000:5000]))
	if staged := wantTail(t, reopenDir(t, d), ref, 0, part[:5000]); staged.Suspect {
		t.Error("a tail is suspect though the machine goes on")
	}
	after := rebootDir(t, d)
	if staged := wantTail(t, after, ref, 0, part[:5000]); !staged.Suspect {
		t.Error("a tail is not suspect after a power loss")
	}
	staged, err := after.Staging.Verify(t.Context(), ref, 1)
	noError(t, err)
	if len(staged.Tails) != 1 || staged.Suspect {
		t.Errorf("a good tail is %+v after Verify", staged)
	}
	lost := reopenDir(t, d, func(o *Options) { o.BootID = "boot 3" })
	noError(t, extend(t, lost, ref, 0, part[:5000], part[5000:9000]))
	noError(t, os.Truncate(filepath.Join(d.stagedDir(ref), dataFile), 8000))
	last := reopenDir(t, d, func(o *Options) { o.BootID = "boot 4" })
	staged, err = last.Staging.Verify(t.Context(), ref, 1)
	noError(t, err)
	if len(staged.Tails) != 0 || staged.Suspect {
		t.Errorf("a tail that has lost its end is %+v after Verify", staged)
	}
	noError(t, extend(t, last, ref, 0, nil, part))
	wantNumbers(t, last, ref, file, 0)
}

// TestJournalWithManyPiecesIsCompacted checks that the rewritten journal has the same state.
func TestJournalWithManyPiecesIsCompacted(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d)
	part, tail := blobtest.Slice(file, 0), blob.NewTail(0)
	const piece = 100
	for at := 0; at < 4000*piece; at += piece {
		_, err := d.Staging.Extend(t.Context(), ref, extension(ref, 0, at), tailBody(ref, 0, tail, bytes.NewReader(part[at:at+piece])))
		noError(t, err)
	}
	info, err := os.Stat(filepath.Join(d.stagedDir(ref), journalFile))
	noError(t, err)
	if info.Size() > compactMin+1000 {
		t.Errorf("the journal of one tail has %d bytes", info.Size())
	}
	wantTail(t, reopenDir(t, d), ref, 0, part[:4000*piece])
}

// BenchmarkExtend adds 1 KiB to a tail of up to 64 MiB.
func BenchmarkExtend(b *testing.B) {
	d := openTestDir(b)
	ref := blob.Ref{ID: drive.NewID[drive.UploadID](), Begun: blobtest.Begun, PartSize: 64 * drive.MiB, Size: blob.UnknownSize}
	noError(b, d.Staging.Create(b.Context(), ref))
	piece := blobtest.Bytes(1, drive.KiB)
	tail, n := blob.NewTail(0), 0
	for b.Loop() {
		e := blob.Extend{N: n, Gen: 1, At: tail.Size(), Whole: ref.PartSize}
		p, err := d.Staging.Extend(b.Context(), ref, e, tailBody(ref, n, tail, bytes.NewReader(piece)))
		noError(b, err)
		if p.Size == ref.PartSize {
			n++
			tail = blob.NewTail(drive.ByteSize(n) * ref.PartSize)
		}
	}
}
