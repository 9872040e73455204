package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// reopenDir opens the same directory as a new process, with only what is on disk.
func reopenDir(t *testing.T, d *Dir, change ...func(*Options)) *Dir {
	t.Helper()
	return openTestDir(t, append([]func(*Options){func(o *Options) { o.Dir = d.root }}, change...)...)
}

// rebootDir is reopenDir under another boot id.
func rebootDir(t *testing.T, d *Dir) *Dir {
	t.Helper()
	return reopenDir(t, d, func(o *Options) { o.BootID = "boot 2" })
}

// newUpload returns an upload of three parts in d and the bytes of its file; the given parts are
// accepted.
func newUpload(t *testing.T, d *Dir, parts ...int) (blob.Ref, []byte) {
	t.Helper()
	file := blobtest.Bytes(1, 2*blobtest.PartSize+5000)
	ref := blobtest.NewRef(drive.ByteSize(len(file)))
	noError(t, d.Staging.Create(t.Context(), ref))
	for _, n := range parts {
		send(t, d, ref, 1, n, blobtest.Slice(file, n))
	}
	return ref, file
}

func send(t *testing.T, d *Dir, ref blob.Ref, gen int64, n int, b []byte) {
	t.Helper()
	_, err := blobtest.Send(t.Context(), d.Staging, ref, gen, n, b)
	noError(t, err)
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Fatalf("error is %v, want kind %v", err, kind)
	}
}

func load(t *testing.T, d *Dir, ref blob.Ref) blob.Staged {
	t.Helper()
	staged, err := d.Staging.Load(t.Context(), ref)
	noError(t, err)
	return staged
}

// wantNumbers checks which parts are accepted and that their bytes are those of file.
func wantNumbers(t *testing.T, d *Dir, ref blob.Ref, file []byte, want ...int) {
	t.Helper()
	var got []int
	for _, p := range load(t, d, ref).Parts {
		got = append(got, p.N)
		if p != blobtest.PartOf(t, p.N, blobtest.Slice(file, p.N)) {
			t.Errorf("part %d is not what was sent", p.N)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("parts (-want +got):\n%s", diff)
	}
	b, err := os.ReadFile(filepath.Join(d.stagedDir(ref), dataFile))
	noError(t, err)
	for _, n := range want {
		part := blobtest.Slice(file, n)
		if from := n * int(blobtest.PartSize); !bytes.Equal(b[from:from+len(part)], part) {
			t.Errorf("bytes of part %d differ", n)
		}
	}
}

func TestPartsAndFenceSurviveTheProcess(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d, 2, 0)
	_, err := d.Staging.Fence(t.Context(), ref, 4)
	noError(t, err)
	send(t, d, ref, 5, 1, blobtest.Slice(file, 1))
	after := reopenDir(t, d)
	wantNumbers(t, after, ref, file, 0, 1, 2)
	if got := load(t, after, ref); got.Suspect || got.Last == 0 {
		t.Errorf("suspect %v, last %v", got.Suspect, got.Last)
	}
	_, err = blobtest.Send(t.Context(), after.Staging, ref, 4, 1, blobtest.Slice(file, 1))
	wantKind(t, err, drive.WrongState)
}

// TestCrashDuringWriteLeavesNoPart copies the directory when half of the body has been read.
func TestCrashDuringWriteLeavesNoPart(t *testing.T) {
	t.Parallel()
	for _, dropped := range []bool{false, true} {
		t.Run(fmt.Sprintf("after a drop: %v", dropped), func(t *testing.T) {
			t.Parallel()
			d := openTestDir(t)
			ref, file := newUpload(t, d, 0, 2)
			if dropped {
				send(t, d, ref, 1, 1, blobtest.Slice(file, 1))
				noError(t, d.Staging.Drop(t.Context(), ref, 1, 1))
			}
			half := blobtest.Bytes(5, blobtest.PartSize/2)
			reached, leave := make(chan struct{}), make(chan struct{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				body := blobtest.BodyOf(1, int(blobtest.PartSize), io.MultiReader(bytes.NewReader(half), stopReader{reached, leave}))
				_, _ = d.Staging.Write(context.Background(), ref, blob.Write{N: 1, Gen: 1, Size: blobtest.PartSize}, body)
			}()
			<-reached
			after := reopenDir(t, d)
			wantNumbers(t, after, ref, file, 0, 2)
			if got, limit := load(t, after, ref).Held, blobtest.PartSize+2*4096; got > limit {
				t.Errorf("held %d, want at most %d: torn bytes must be freed", got, limit)
			}
			close(leave)
			<-done
		})
	}
}

type stopReader struct{ reached, leave chan struct{} }

func (r stopReader) Read([]byte) (int, error) {
	close(r.reached)
	<-r.leave
	return 0, errors.New("process is gone")
}

func TestTruncatedJournalKeepsWholeFrames(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d, 0, 1)
	noError(t, d.Staging.Drop(t.Context(), ref, 1, 0))
	path := filepath.Join(d.stagedDir(ref), journalFile)
	whole, err := os.ReadFile(path)
	noError(t, err)
	data, err := os.ReadFile(filepath.Join(d.stagedDir(ref), dataFile))
	noError(t, err)
	ends := frameEnds(t, whole)
	for n := range whole {
		if n%13 != 0 && !slices.ContainsFunc(ends, func(end int) bool { return n >= end-1 && n <= end+1 }) {
			continue // the bytes between are FuzzJournal's
		}
		noError(t, os.WriteFile(path, whole[:n], fileMode))
		noError(t, os.WriteFile(filepath.Join(d.stagedDir(ref), dataFile), data, fileMode))
		after := reopenDir(t, d)
		staged, err := after.Staging.Load(t.Context(), ref)
		if n < ends[0] {
			wantKind(t, err, drive.NotFound)
			continue
		}
		noError(t, err)
		frames := 0
		for frames < len(ends) && ends[frames] <= n {
			frames++
		}
		if want := []int{0, 0, 1, 2, 1}[frames]; len(staged.Parts) != want {
			t.Fatalf("cut at %d, %d frames: %d parts, want %d", n, frames, len(staged.Parts), want)
		}
		// What was cut may have been the drop of part 0, so no part may be trusted.
		if torn := n != ends[frames-1]; staged.Suspect != (torn && len(staged.Parts) > 0) {
			t.Fatalf("cut at %d: suspect %v", n, staged.Suspect)
		}
		if got := load(t, reopenDir(t, d), ref); got.Suspect != staged.Suspect {
			t.Fatalf("cut at %d: the next process forgets the suspicion", n)
		}
		// Part 0 was dropped and its bytes are gone: whatever the journal says now, Verify finds
		// out.
		verified, err := after.Staging.Verify(t.Context(), ref, 1)
		noError(t, err)
		if staged.Suspect && (len(verified.Parts) != min(1, len(staged.Parts)-1) || verified.Suspect) {
			t.Fatalf("cut at %d: after Verify %d parts, suspect %v", n, len(verified.Parts), verified.Suspect)
		}
		noError(t, after.Staging.Drop(t.Context(), ref, 2, 0))
		send(t, after, ref, 2, 0, blobtest.Slice(file, 0))
	}
}

// frameEnds returns the end offset of each frame.
func frameEnds(t *testing.T, b []byte) (ends []int) {
	t.Helper()
	for at := 0; at < len(b); {
		_, n, err := readFrame(b[at:])
		if n == 0 || err != nil {
			t.Fatalf("frame at %d: %v", at, err)
		}
		at += n
		ends = append(ends, at)
	}
	return ends
}

func TestPowerLossMakesUnsyncedPartsSuspect(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d, 0)
	_, err := d.Staging.Fence(t.Context(), ref, 1)
	noError(t, err)
	send(t, d, ref, 2, 1, blobtest.Slice(file, 1))
	send(t, d, ref, 2, 2, blobtest.Slice(file, 2))
	noError(t, d.Close())
	zeroRange(t, d, ref, int64(blobtest.PartSize)+100, 4096)

	after := rebootDir(t, d)
	if got := load(t, after, ref); len(got.Parts) != 3 || !got.Suspect {
		t.Fatalf("%d parts, suspect %v", len(got.Parts), got.Suspect)
	}
	wantKind(t, after.Staging.Seal(t.Context(), ref, ref.Size), drive.WrongState)
	// Neither a Write nor a sync under the new boot brings lost bytes back.
	send(t, after, ref, 2, 2, blobtest.Slice(file, 2))
	_, err = after.Staging.Fence(t.Context(), ref, 2)
	noError(t, err)
	if got := load(t, reopenDir(t, after, func(o *Options) { o.BootID = "boot 2" }), ref); !got.Suspect {
		t.Fatal("the suspicion is gone without Verify")
	}
	got, err := after.Staging.Verify(t.Context(), ref, 2)
	noError(t, err)
	if got.Suspect {
		t.Error("suspect after Verify")
	}
	wantNumbers(t, after, ref, file, 0, 2)
	send(t, after, ref, 3, 1, blobtest.Slice(file, 1))
	noError(t, after.Staging.Seal(t.Context(), ref, ref.Size))
}

// zeroRange overwrites a range with zeros, like a power loss does with unsynced bytes.
func zeroRange(t *testing.T, d *Dir, ref blob.Ref, off, n int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(d.stagedDir(ref), dataFile), os.O_WRONLY, 0)
	noError(t, err)
	_, err = f.WriteAt(make([]byte, n), off)
	noError(t, err)
	noError(t, f.Close())
}

func TestVerifiedAndSyncedPartsAreNotSuspectAfterReboot(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){"part": durable, "process": func(*Options) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openTestDir(t, change)
			ref, file := newUpload(t, d, 0, 1, 2)
			if name == "process" {
				d = rebootDir(t, d)
				_, err := d.Staging.Verify(t.Context(), ref, 1)
				noError(t, err)
			}
			after := reopenDir(t, d, func(o *Options) { o.BootID = "boot 3" })
			if load(t, after, ref).Suspect {
				t.Error("suspect, although every byte is on disk")
			}
			wantNumbers(t, after, ref, file, 0, 1, 2)
		})
	}
}

func TestFailedSyncMakesPartsSuspectPermanently(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d, 0, 1, 2)
	u, err := d.Staging.acquire(ref)
	noError(t, err)
	u.flush.stop()
	u.flush.path = d.root // a directory cannot be opened for writing: write-back fails
	u.flush.add(t.Context(), span{0, 1})
	d.flushers.Wait()
	d.Staging.release(u)
	for _, d := range []*Dir{d, reopenDir(t, d)} {
		if !load(t, d, ref).Suspect {
			t.Fatal("the failed sync is forgotten")
		}
		wantKind(t, d.Staging.Seal(t.Context(), ref, ref.Size), drive.WrongState)
	}
	after := reopenDir(t, d)
	got, err := after.Staging.Verify(t.Context(), ref, 1)
	noError(t, err)
	if got.Suspect || len(got.Parts) != 3 {
		t.Errorf("after Verify: %d parts, suspect %v", len(got.Parts), got.Suspect)
	}
	wantNumbers(t, after, ref, file, 0, 1, 2)
}

func TestSealSurvivesCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for stop := 0; ; stop++ {
		d := openTestDir(t)
		ref, file := newUpload(t, d, 0, 1, 2)
		u, err := d.Staging.acquire(ref)
		noError(t, err)
		steps := u.sealSteps(ref.Size)
		if stop > len(steps) {
			return
		}
		for _, step := range steps[:stop] {
			noError(t, step())
		}
		after := reopenDir(t, d)
		if got := load(t, after, ref); len(got.Parts) != 3 || got.Suspect {
			t.Fatalf("crash after step %d: %d parts, suspect %v", stop, len(got.Parts), got.Suspect)
		}
		noError(t, after.Staging.Seal(t.Context(), ref, ref.Size))
		noError(t, reopenDir(t, d).Staging.Seal(t.Context(), ref, ref.Size))
		got, err := os.ReadFile(d.sealedPath(ref.ID))
		if err != nil || !bytes.Equal(got, file) {
			t.Errorf("crash after step %d: content differs: %v", stop, err)
		}
		// And back, from the same states.
		noError(t, reopenDir(t, d).Staging.Unseal(t.Context(), ref))
		wantNumbers(t, reopenDir(t, d), ref, file, 0, 1, 2)
	}
}

// TestLoadDuringSealFindsBytes: a Load that finds the bytes nowhere would report the upload as
// lost.
func TestLoadDuringSealFindsBytes(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, _ := newUpload(t, d, 0, 1, 2)
	u, err := d.Staging.acquire(ref)
	noError(t, err)
	noError(t, u.beginMove(func() error { return nil }))
	for i, step := range u.sealSteps(ref.Size) {
		noError(t, step())
		if got := load(t, d, ref); len(got.Parts) != 3 {
			t.Errorf("after step %d: %d parts", i, len(got.Parts))
		}
	}
	u.endMove()
	if got := load(t, d, ref); len(got.Parts) != 3 {
		t.Errorf("in the end: %d parts", len(got.Parts))
	}
}

func TestSealTruncatesTornPart(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref := blobtest.NewRef(blob.UnknownSize)
	noError(t, d.Staging.Create(t.Context(), ref))
	b := blobtest.Bytes(1, 5000)
	send(t, d, ref, 1, 0, b)
	body := blobtest.BodyOf(1, 9000, bytes.NewReader(b))
	_, err := d.Staging.Write(t.Context(), ref, blob.Write{N: 1, Gen: 1, Size: 9000}, body)
	wantKind(t, err, drive.PartSize)
	noError(t, d.Staging.Seal(t.Context(), ref, 5000))
	if got, err := os.ReadFile(d.sealedPath(ref.ID)); err != nil || !bytes.Equal(got, b) {
		t.Errorf("content has %d bytes, want %d: %v", len(got), len(b), err)
	}
}

func TestSealNeverOverwritesContent(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, _ := newUpload(t, d, 0, 1, 2)
	noError(t, os.Mkdir(filepath.Dir(d.sealedPath(ref.ID)), dirMode))
	noError(t, os.WriteFile(d.sealedPath(ref.ID), []byte("other"), fileMode))
	if err := d.Staging.Seal(t.Context(), ref, ref.Size); err == nil {
		t.Error("sealed over other content (B1)")
	}
	if err := d.Staging.Unseal(t.Context(), ref); err == nil {
		t.Error("unsealed over staged bytes")
	}
	if got, err := os.ReadFile(d.sealedPath(ref.ID)); err != nil || string(got) != "other" {
		t.Errorf("content is now %q, %v", got, err)
	}
}

func TestCreateSurvivesCrash(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref := blobtest.NewRef(10)
	dir := d.stagedDir(ref)
	noError(t, os.MkdirAll(dir, dirMode))
	for _, left := range [][]byte{nil, []byte("SD"), make([]byte, frameOver+headerLen-1)} {
		noError(t, os.WriteFile(filepath.Join(dir, journalFile), left, fileMode))
		_, err := reopenDir(t, d).Staging.Load(t.Context(), ref)
		wantKind(t, err, drive.NotFound)
		noError(t, reopenDir(t, d).Staging.Create(t.Context(), ref))
		send(t, reopenDir(t, d), ref, 1, 0, make([]byte, 10))
	}
}
