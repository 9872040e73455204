package blobtest

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// RunTails checks that a Staging accepts parts in pieces. open returns an empty pair for each
// subtest.
func RunTails(t *testing.T, open func(t *testing.T) (blob.Staging, blob.Store)) {
	for name, check := range map[string]func(*testing.T, blob.Staging, blob.Store){
		"pieces make a tail, and a part once they are whole":            pieces,
		"many small pieces are one tail":                                manyPieces,
		"a piece that belongs elsewhere is OffsetMismatch and not read": movedTail,
		"a torn piece leaves the tail as it was":                        tornPiece,
		"a piece beyond the part is refused":                            longPiece,
		"an empty piece makes a part of a whole tail":                   promoted,
		"a part that comes whole replaces the tail":                     replacedTail,
		"Drop and Remove take the tail":                                 droppedTail,
		"a fenced gen extends nothing, a later one goes on":             fencedTail,
		"Extend beside a Write is InProgress":                           busyTail,
		"a tail is held, verified, and no part":                         heldTail,
		"what is withheld is in no journal until it is entered":         withheldPieces,
		"an upload of parts and tails seals once the tail is a part":    sealedTail,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			staging, store := open(t)
			check(t, staging, store)
		})
	}
}

// TailSender sends the pieces of one part and keeps the hashes between them.
type TailSender struct {
	Ref   blob.Ref
	N     int
	Gen   int64          // fencing token
	Whole drive.ByteSize // size of the complete part
	tail  *blob.Tail     // running hashes; nil: to be rebuilt
}

// fill returns a TailSender for part n of an upload; the part is complete at whole bytes. It sends
// nothing.
func fill(ref blob.Ref, n int, whole int) *TailSender {
	return &TailSender{Ref: ref, N: n, Gen: 1, Whole: drive.ByteSize(whole), tail: blob.NewTail(drive.ByteSize(n) * ref.PartSize)}
}

// Send extends the tail by the bytes of r and returns the result of Staging.Extend. After an error
// the next call loads the tail from the store again.
func (f *TailSender) Send(t testing.TB, s blob.Staging, r io.Reader) (blob.Part, error) {
	t.Helper()
	e, body := f.extend(t, s, r)
	part, err := s.Extend(t.Context(), f.Ref, e, body)
	if err != nil {
		f.tail = nil
	}
	return part, err
}

// withhold stores b behind the tail with PrepareExtend, so it is not in the journal. The caller
// must call Commit or Discard on the result.
func (f *TailSender) withhold(t testing.TB, s blob.Staging, b []byte) blob.PendingExtend {
	t.Helper()
	e, body := f.extend(t, s, bytes.NewReader(b))
	w, err := s.PrepareExtend(t.Context(), f.Ref, e, body)
	noError(t, err)
	return w
}

// extend returns the Extend and the Body for the bytes of r.
func (f *TailSender) extend(t testing.TB, s blob.Staging, r io.Reader) (blob.Extend, blob.Body) {
	t.Helper()
	if f.tail == nil || f.tail.Size() < 0 {
		f.reread(t, s)
	}
	e := blob.Extend{N: f.N, Gen: f.Gen, Session: Session, At: f.tail.Size(), Whole: f.Whole}
	return e, blob.NewBody(r, blob.BodyOptions{
		N: f.N, Offset: drive.ByteSize(f.N) * f.Ref.PartSize, Size: blob.UnknownSize, Limit: f.Whole - e.At, Session: Session, Tail: f.tail,
	})
}

// reread rebuilds the hashes of f from the staged tail, as after a crash. Without a staged tail, it
// begins an empty one.
func (f *TailSender) reread(t testing.TB, s blob.Staging) {
	t.Helper()
	f.tail = blob.NewTail(drive.ByteSize(f.N) * f.Ref.PartSize)
	r, err := s.OpenTail(t.Context(), f.Ref, f.N)
	if drive.IsKind(err, drive.NotFound) {
		return
	}
	noError(t, err)
	_, err = io.Copy(f.tail, r)
	noError(t, err)
	noError(t, r.Close())
}

// send extends the tail by b and returns the resulting part; an error fails the test.
func (f *TailSender) send(t *testing.T, s blob.Staging, b []byte) blob.Part {
	t.Helper()
	part, err := f.Send(t, s, bytes.NewReader(b))
	noError(t, err)
	return part
}

// wantTail checks that the upload has exactly one tail, with these bytes, and returns all that is
// staged.
func wantTail(t *testing.T, s blob.Staging, ref blob.Ref, n int, b []byte) blob.Staged {
	t.Helper()
	got, err := s.Load(t.Context(), ref)
	noError(t, err)
	want := []blob.Part{}
	if len(b) > 0 {
		want = append(want, partOf(t, ref, n, b))
	}
	if diff := cmp.Diff(want, append([]blob.Part{}, got.Tails...)); diff != "" {
		t.Fatalf("tails (-want +got):\n%s", diff)
	}
	if len(b) == 0 {
		return got
	}
	r, err := s.OpenTail(t.Context(), ref, n)
	noError(t, err)
	bytesOf, err := io.ReadAll(r)
	noError(t, err)
	noError(t, r.Close())
	if !bytes.Equal(bytesOf, b) {
		t.Fatalf("the tail reads %d bytes that are not the %d sent", len(bytesOf), len(b))
	}
	return got
}

// pieces checks that a part sent in pieces has the part and tail of the bytes sent so far after
// each, and becomes a part with the last.
func pieces(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	for n := range 3 {
		b := slice(ref, file, n)
		f := fill(ref, n, len(b))
		cut := []int{0, 1, 2000, len(b) / 2, len(b)}
		for i := range cut[1:] {
			got := f.send(t, s, b[cut[i]:cut[i+1]])
			if want := partOf(t, ref, n, b[:cut[i+1]]); got != want {
				t.Fatalf("after %d bytes: %+v, want %+v", cut[i+1], got, want)
			}
			if cut[i+1] < len(b) {
				wantTail(t, s, ref, n, b[:cut[i+1]])
			}
		}
	}
	wantTail(t, s, ref, 0, nil)
	wantParts(t, s, ref, partOf(t, ref, 0, slice(ref, file, 0)), partOf(t, ref, 1, slice(ref, file, 1)), partOf(t, ref, 2, slice(ref, file, 2)))
}

// manyPieces checks a part of many small pieces, also after the sender has lost its state.
func manyPieces(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 2)
	f := fill(ref, 2, len(b))
	for i := 0; i < len(b)-200; i += 100 {
		if i == 2500 {
			f.tail = nil // the process has died
		}
		f.send(t, s, b[i:i+100])
	}
	wantTail(t, s, ref, 2, b[:len(b)-200])
	f.send(t, s, b[len(b)-200:])
	wantParts(t, s, ref, partOf(t, ref, 2, b))
}

// movedTail checks that a piece that does not begin at the end of the tail fails with
// OffsetMismatch, before its body is read.
func movedTail(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	f := fill(ref, 0, len(b))
	f.send(t, s, b[:1000])
	for _, at := range []drive.ByteSize{0, 999, 1001} {
		read := &counter{r: bytes.NewReader(b)}
		body := blob.NewBody(read, blob.BodyOptions{Size: blob.UnknownSize, Limit: ref.PartSize, Session: Session})
		_, err := s.Extend(t.Context(), ref, blob.Extend{N: 0, Gen: 1, At: at, Whole: f.Whole}, body)
		wantKind(t, err, drive.OffsetMismatch)
		if read.n > 0 {
			t.Errorf("%d bytes were read", read.n)
		}
	}
	wantTail(t, s, ref, 0, b[:1000])
	f.send(t, s, b[1000:])
	_, err := f.Send(t, s, bytes.NewReader(nil))
	wantKind(t, err, drive.OffsetMismatch)
	wantParts(t, s, ref, partOf(t, ref, 0, b))
}

// counter counts the bytes read from r.
type counter struct {
	r io.Reader
	n int
}

// Read reads from c.r and adds the number of bytes to c.n.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// tornPiece checks that a piece whose body is cut off leaves the tail unchanged and its bytes are
// freed.
func tornPiece(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 1)
	f := fill(ref, 1, len(b))
	for _, had := range []int{0, 3000} {
		f.send(t, s, b[:had])
		if _, err := f.Send(t, s, cutReader(b[had:700_000])); err == nil {
			t.Fatal("a torn piece is accepted")
		}
		if got := wantTail(t, s, ref, 1, b[:had]); got.Held > 64<<10 {
			t.Errorf("held %d bytes after a torn piece", got.Held)
		}
	}
	f.send(t, s, b[3000:])
	wantParts(t, s, ref, partOf(t, ref, 1, b))
}

// longPiece checks that a piece that exceeds the announced or the possible length of the part fails
// with PartSize and leaves the tail unchanged.
func longPiece(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 2)
	f := fill(ref, 2, len(b))
	f.send(t, s, b[:100])
	_, err := f.Send(t, s, bytes.NewReader(append(bytes.Clone(b[100:]), 'x')))
	wantKind(t, err, drive.PartSize)
	wantTail(t, s, ref, 2, b[:100])
	f.Whole++
	_, err = f.Send(t, s, bytes.NewReader(b[100:]))
	wantKind(t, err, drive.PartSize)
	wantTail(t, s, ref, 2, b[:100])
}

// promoted checks that an empty piece turns the tail into the last part when the length becomes
// known.
func promoted(t *testing.T, s blob.Staging, _ blob.Store) {
	file := Bytes(6, 4000)
	ref := newRef(s, blob.UnknownSize)
	noError(t, s.Create(t.Context(), ref))
	f := fill(ref, 0, int(ref.PartSize))
	f.send(t, s, file)
	wantTail(t, s, ref, 0, file)
	f.Whole = drive.ByteSize(len(file))
	f.send(t, s, nil)
	wantTail(t, s, ref, 0, nil)
	wantParts(t, s, ref, partOf(t, ref, 0, file))
}

// replacedTail checks that a Write of the whole part replaces the tail.
func replacedTail(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 1)
	f := fill(ref, 1, len(b))
	f.send(t, s, Bytes(9, 1000))
	send(t, s, ref, 1, 1, b)
	wantTail(t, s, ref, 1, nil)
	wantParts(t, s, ref, partOf(t, ref, 1, b))
}

// droppedTail checks that Drop and Remove delete the tail and free its bytes.
func droppedTail(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 1)
	f := fill(ref, 1, len(b))
	f.send(t, s, b[:200_000])
	noError(t, s.Drop(t.Context(), ref, 1, 1))
	if got := wantTail(t, s, ref, 1, nil); got.Held > 64<<10 {
		t.Errorf("held %d bytes after Drop", got.Held)
	}
	f.tail = nil
	f.send(t, s, b[:300])
	wantTail(t, s, ref, 1, b[:300])
	noError(t, s.Remove(t.Context(), ref))
	_, err := f.Send(t, s, bytes.NewReader(b[300:]))
	wantKind(t, err, drive.NotFound)
	_, err = s.OpenTail(t.Context(), ref, 1)
	wantKind(t, err, drive.NotFound)
	noError(t, s.ListStaged(t.Context(), func(stray blob.Entry) error {
		t.Errorf("%s stays after Remove", stray.Path)
		return nil
	}))
}

// fencedTail checks that Fence keeps and returns the tail, and refuses pieces of its generation.
func fencedTail(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 1)
	f := fill(ref, 1, len(b))
	f.send(t, s, b[:5000])
	staged, err := s.Fence(t.Context(), ref, 1)
	noError(t, err)
	if len(staged.Tails) != 1 || staged.Tails[0].Size != 5000 {
		t.Fatalf("Fence returns tails %v", staged.Tails)
	}
	_, err = f.Send(t, s, bytes.NewReader(b[5000:]))
	wantKind(t, err, drive.WrongState)
	wantTail(t, s, ref, 1, b[:5000])
	f.Gen = 2
	f.send(t, s, b[5000:])
	wantParts(t, s, ref, partOf(t, ref, 1, b))
}

// busyTail checks that a piece of a part fails with InProgress while a Write of the part runs.
func busyTail(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	g, done := startWrite(t, s, ref, 1, 0, b)
	_, err := fill(ref, 0, len(b)).Send(t, s, bytes.NewReader(b[:10]))
	wantKind(t, err, drive.InProgress)
	g.open <- nil
	noError(t, <-done)
	wantParts(t, s, ref, partOf(t, ref, 0, b))
}

// withheldPieces checks that a prepared piece claims the part and is invisible until Commit, and
// that Discard leaves the tail unchanged and frees the bytes.
func withheldPieces(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 1)
	f := fill(ref, 1, len(b))
	for _, had := range []int{0, 3000} {
		f.send(t, s, b[:had])
		for _, size := range []int{had, had + 5, len(b)} {
			w := f.withhold(t, s, b[had:size])
			if w.Part() != partOf(t, ref, 1, b[:size]) {
				t.Errorf("withheld %+v", w.Part())
			}
			wantTail(t, s, ref, 1, b[:had])
			_, err := fill(ref, 1, len(b)).Send(t, s, bytes.NewReader(b))
			wantKind(t, err, drive.InProgress)
			w.Discard(t.Context())
			if got := wantTail(t, s, ref, 1, b[:had]); got.Held > 64<<10 {
				t.Errorf("held %d bytes of what was discarded", got.Held)
			}
			f.tail = nil
		}
	}
	for _, end := range []int{4000, len(b)} {
		from := int(load(t, s, ref, 1))
		noError(t, f.withhold(t, s, b[from:end]).Commit(t.Context()))
	}
	wantParts(t, s, ref, partOf(t, ref, 1, b))
	fill(ref, 0, len(slice(ref, file, 0))).withhold(t, s, []byte("x")).Discard(t.Context())
	_, err := s.Fence(t.Context(), ref, 1) // waits for nobody
	noError(t, err)
}

// load returns the length of the tail of part n in bytes; 0 if there is no tail.
func load(t *testing.T, s blob.Staging, ref blob.Ref, n int) drive.ByteSize {
	t.Helper()
	got, err := s.Load(t.Context(), ref)
	noError(t, err)
	for _, p := range got.Tails {
		if p.N == n {
			return p.Size
		}
	}
	return 0
}

// heldTail checks that Load counts the bytes of a tail and Verify keeps it.
func heldTail(t *testing.T, s blob.Staging, _ blob.Store) {
	ref, file := newUpload(t, s)
	b := slice(ref, file, 0)
	f := fill(ref, 0, len(b))
	f.send(t, s, b[:300_000])
	got := wantTail(t, s, ref, 0, b[:300_000])
	if slack := drive.ByteSize(64 << 10); got.Held < 300_000 || got.Held > 300_000+slack || len(got.Parts) > 0 || got.Last == 0 {
		t.Errorf("held %d bytes of 300000, %d parts, last %v", got.Held, len(got.Parts), got.Last)
	}
	got, err := s.Verify(t.Context(), ref, 1)
	noError(t, err)
	if len(got.Tails) != 1 || got.Suspect {
		t.Errorf("after Verify tails %v, suspect %v", got.Tails, got.Suspect)
	}
}

// sealedTail checks that Seal fails with PartsMissing while a part is only a tail, and succeeds
// when it is complete.
func sealedTail(t *testing.T, s blob.Staging, store blob.Store) {
	ref, file := newUpload(t, s)
	send(t, s, ref, 1, 0, slice(ref, file, 0))
	send(t, s, ref, 1, 2, slice(ref, file, 2))
	b := slice(ref, file, 1)
	f := fill(ref, 1, len(b))
	f.send(t, s, b[:len(b)-1])
	wantKind(t, s.Seal(t.Context(), ref, ref.Size), drive.PartsMissing)
	f.send(t, s, b[len(b)-1:])
	noError(t, s.Seal(t.Context(), ref, ref.Size))
	wantContent(t, store, ref, file)
	noError(t, s.Remove(t.Context(), ref))
	wantContent(t, store, ref, file)
}
