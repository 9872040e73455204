package contents_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/move/contents"
)

func put(t *testing.T, s blob.Store, b []byte) contents.Content {
	t.Helper()
	name := blobtest.PutName()
	if _, err := s.Put(t.Context(), name, blobtest.BodyOf(0, len(b), bytes.NewReader(b))); err != nil {
		t.Fatal(err)
	}
	return contents.Content{Name: name, Sum: blake3.Sum256(b), Size: drive.ByteSize(len(b)), PartSize: drive.MiB}
}

func wantBytes(t *testing.T, s blob.Store, c contents.Content, want []byte) {
	t.Helper()
	o, err := s.Open(t.Context(), c.Name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(o, 0, int64(o.Size())))
	if err = errors.Join(err, o.Close()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes differ from the %d that were put: %v", len(got), len(want), err)
	}
}

func wantOutcome(t *testing.T, p *contents.Pair, c contents.Content, want contents.Outcome) {
	t.Helper()
	if got, err := p.Sync(t.Context(), c, false, nil); err != nil || got != want {
		t.Errorf("sync is %v, %v, want %v", got, err, want)
	}
}

func TestSyncCopiesBothWays(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) contents.Side{"directory": directory, "bucket": bucket} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := both(directory(t), open(t), contents.First)
			for _, size := range []drive.ByteSize{0, 1, 3*drive.MiB + 5} {
				b := blobtest.Bytes(uint64(size), size)
				before := put(t, p.Blobs, b)
				p.SetLeader(contents.Second)
				after := put(t, p.Blobs, b)
				wantBytes(t, p.Blobs, before, b)
				for _, c := range []contents.Content{before, after} {
					wantOutcome(t, p, c, contents.Copied)
					wantOutcome(t, p, c, contents.OnBoth)
					wantBytes(t, p.Side(contents.First).Store, c, b)
					wantBytes(t, p.Side(contents.Second).Store, c, b)
					if err := p.Check(t.Context(), contents.Second, c, true, nil); err != nil {
						t.Error(err)
					}
				}
				p.SetLeader(contents.First)
			}
		})
	}
}

// Bytes that do not match the row are never copied.
func TestSyncRefusesOtherBytes(t *testing.T) {
	t.Parallel()
	p := both(directory(t), directory(t), contents.First)
	b := blobtest.Bytes(1, 5000)
	c := put(t, p.Blobs, b)
	c.Sum[0] ^= 1
	var mismatch *contents.MismatchError
	if _, err := p.Sync(t.Context(), c, false, nil); !errors.As(err, &mismatch) {
		t.Errorf("error is %v, want a mismatch", err)
	}
	short := c
	short.Size++
	if _, err := p.Sync(t.Context(), short, false, nil); !errors.As(err, &mismatch) {
		t.Errorf("error is %v, want a mismatch", err)
	}
	if _, err := p.Side(contents.Second).Store.Stat(t.Context(), c.Name); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("wrong bytes have arrived: %v", err)
	}
	if err := p.Check(t.Context(), contents.First, c, false, nil); err != nil {
		t.Errorf("the size is right: %v", err)
	}
	if err := p.Check(t.Context(), contents.First, c, true, nil); !errors.As(err, &mismatch) {
		t.Errorf("error is %v, want a mismatch", err)
	}
	if err := p.Check(t.Context(), contents.Second, c, false, nil); !errors.As(err, &mismatch) {
		t.Errorf("error is %v, want a mismatch", err)
	}
	c.Sum = blake3.Sum256(b)
	wantOutcome(t, p, c, contents.Copied)
}

// A torn copy at the follower is replaced.
func TestSyncRepairsFollower(t *testing.T) {
	t.Parallel()
	p := both(directory(t), directory(t), contents.First)
	b := blobtest.Bytes(1, 5000)
	c := put(t, p.Blobs, b)
	torn := b[:100]
	if _, err := p.Side(contents.Second).Store.Put(t.Context(), c.Name, blobtest.BodyOf(0, len(torn), bytes.NewReader(torn))); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, p, c, contents.Copied)
	wantBytes(t, p.Side(contents.Second).Store, c, b)
}

// A deep comparison replaces follower bytes of the right size with another digest.
func TestSyncReplacesDamagedFollower(t *testing.T) {
	t.Parallel()
	p := both(directory(t), directory(t), contents.First)
	b := blobtest.Bytes(1, 5000)
	c := put(t, p.Blobs, b)
	flipped := bytes.Clone(b)
	flipped[77] ^= 1
	if _, err := p.Side(contents.Second).Store.Put(t.Context(), c.Name, blobtest.BodyOf(0, len(flipped), bytes.NewReader(flipped))); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Sync(t.Context(), c, true, nil); err != nil || got != contents.Copied {
		t.Errorf("sync is %v, %v", got, err)
	}
	wantBytes(t, p.Side(contents.Second).Store, c, b)
}

// Of a concurrent copy and removal, one sees the other: no content without a row is left.
func TestRemovedContentIsNotCopied(t *testing.T) {
	t.Parallel()
	p := both(directory(t), directory(t), contents.First)
	c := put(t, p.Blobs, blobtest.Bytes(1, 5000))
	got, err := p.Sync(t.Context(), c, false, func(ctx context.Context, _ int) error { return p.Blobs.Remove(ctx, c.Name) })
	if err != nil || got != contents.OnNeither {
		t.Errorf("sync is %v, %v", got, err)
	}
	for _, w := range []contents.SideIndex{contents.First, contents.Second} {
		if _, err := p.Side(w).Store.Stat(t.Context(), c.Name); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("side %d has it: %v", w, err)
		}
	}
}

// An interrupted copy resumes, and a partial copy is never visible.
func TestInterruptedCopyLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) contents.Side{"directory": directory, "bucket": bucket} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := both(directory(t), open(t), contents.First)
			b := blobtest.Bytes(1, 3*drive.MiB)
			c := put(t, p.Blobs, b)
			cut := errors.New("cut")
			calls := 0
			_, err := p.Sync(t.Context(), c, false, func(context.Context, int) error {
				if calls++; calls > 1 {
					return cut
				}
				if _, err := p.Side(contents.Second).Store.Open(t.Context(), c.Name); !drive.IsKind(err, drive.NotFound) {
					t.Errorf("half of it can be read: %v", err)
				}
				return nil
			})
			if !errors.Is(err, cut) {
				t.Errorf("error is %v, want the cut", err)
			}
			wantOutcome(t, p, c, contents.Copied)
			wantBytes(t, p.Side(contents.Second).Store, c, b)
		})
	}
}

// An upload ends on the side where it began, after a switch of the leader and after a restart.
func TestUploadStaysAtItsSide(t *testing.T) {
	t.Parallel()
	first, second := directory(t), directory(t)
	p := both(first, second, contents.First)
	file := blobtest.Bytes(1, 2*drive.MiB)
	ref := blobtest.NewRef(drive.ByteSize(len(file)))
	if err := p.Uploads.Create(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		p = both(first, second, contents.Second) // as after a restart
		if err := p.Uploads.Create(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if _, err := blobtest.Send(t.Context(), p.Uploads, ref, 1, n, blobtest.Slice(file, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Uploads.Seal(t.Context(), ref, ref.Size); err != nil {
		t.Fatal(err)
	}
	c := contents.Content{Name: ref.ID.String(), Sum: blake3.Sum256(file), Size: ref.Size, PartSize: ref.PartSize}
	wantBytes(t, first.Store, c, file)
	wantOutcome(t, p, c, contents.Copied)
	wantBytes(t, second.Store, c, file)
}

func TestReadPercentUsesFollower(t *testing.T) {
	t.Parallel()
	p := both(directory(t), directory(t), contents.First)
	at := func(c contents.Content) (sides int) { // the answering side, recognized by a size that only it has
		n, err := p.Blobs.Stat(t.Context(), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	all := make([]contents.Content, 40)
	for i := range all {
		all[i] = put(t, p.Side(contents.First).Store, blobtest.Bytes(1, 1))
		b := blobtest.Bytes(1, 2)
		if _, err := p.Side(contents.Second).Store.Put(t.Context(), all[i].Name, blobtest.BodyOf(0, 2, bytes.NewReader(b))); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, percent := range []int{0, 30, 60, 100} {
		p.SetReadPercent(percent)
		moved := 0
		for _, c := range all {
			switch follower := at(c) == 2; {
			case follower:
				seen[c.Name] = true
				moved++
			case seen[c.Name]:
				t.Errorf("%s flips back at %d percent", c.Name, percent)
			}
		}
		if percent == 0 && moved != 0 || percent == 100 && moved != len(all) {
			t.Errorf("%d of %d are read at the follower at %d percent", moved, len(all), percent)
		}
	}
}
